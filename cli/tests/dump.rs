//! `dump` and what reads it.

mod common;
use common::{NONE, Place};
use std::ffi::OsStr;
use std::fs;

/// Two trees with binary and empty keys and values, and one empty tree.
fn filled() -> Place {
    let place = Place::new();
    let bytes = "\\x00\\x01\\\\ ~\\x7f\\xff\\n";
    let input =
        place.file("in.tsv", format!("{bytes}\t{bytes}{bytes}\n\tempty key\nempty value\t\n"));
    place.ok("load", &[input.as_os_str()]);
    let other = place.file("other.tsv", "k\tv\n");
    place.ok("load", &[other.as_os_str(), OsStr::new("--tree"), OsStr::new("o t=h\\er")]);
    let empty = place.file("empty.tsv", "");
    place.ok("load", &[empty.as_os_str(), OsStr::new("--tree"), OsStr::new("empty")]);
    place
}

/// The file was put in the place of the link.
#[test]
fn a_dump_into_a_symbolic_link_writes_what_the_link_names() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    let (link, target) = (place.path("link.dump"), place.path("folder/target.dump"));
    std::fs::create_dir(place.path("folder")).expect("room");
    std::os::unix::fs::symlink("folder/target.dump", &link).expect("room");
    // A link that names nothing so far, and one that names a file.
    for value in ["v", "w"] {
        place.ok("put", &["k", value]);
        place.ok("dump", &["-o", link.to_str().expect("UTF-8")]);
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
        let text = std::fs::read_to_string(&target).expect("written");
        assert!(text.contains(&format!(" {:02x}\n", value.as_bytes()[0])), "{text}");
    }
    let circle = place.path("circle");
    std::os::unix::fs::symlink("circle", &circle).expect("room");
    let message = place.fails(3, "dump", &["-o", circle.to_str().expect("UTF-8")]);
    assert!(message.contains("leads nowhere"), "{message}");
}

#[test]
fn a_dump_loaded_again_gives_the_same_trees_in_either_notation() {
    let place = filled();
    for (name, options) in
        [("hex", &[][..]), ("print", &["--print"]), ("lmdb", &["--lmdb", "--print"])]
    {
        let file = place.path(&format!("{name}.dump"));
        let output = ["-o", file.to_str().expect("UTF-8")];
        place.ok("dump", &[options, &output].concat());
        let ran = place.run_on(name, "load", &[file.as_os_str()], b"");
        assert_eq!(ran.code, 0, "{}", ran.err);
        for tree in ["main", "o t=h\\er", "empty"] {
            let scan = |db| {
                let ran = place.run_on(db, "scan", &["--values", "--tree", tree], b"");
                assert_eq!(ran.code, 0, "{}", ran.err);
                ran.out
            };
            assert_eq!(scan("db"), scan(name), "{name} {tree}");
        }
        assert_eq!(place.run_on(name, "trees", &NONE, b"").out, place.run("trees", &NONE).out);
    }
}

#[test]
fn a_dump_has_the_form_that_mdb_load_and_db_load_read() {
    let place = Place::new();
    place.ok("put", &["k\\n", "v\\\\"]);
    let header = "VERSION=3\nformat=bytevalue\ndatabase=main\ntype=btree\nHEADER=END\n";
    assert_eq!(place.ok("dump", &NONE), format!("{header} 6b0a\n 765c\nDATA=END\n"));
    let header = "VERSION=3\nformat=print\ntype=btree\nmapsize=67108864\nHEADER=END\n";
    let options = ["--tree", "main", "--unnamed", "--print", "--lmdb"];
    assert_eq!(place.ok("dump", &options), format!("{header} k\\0a\n v\\5c\nDATA=END\n"));
}

#[test]
fn a_dump_file_is_complete_or_absent() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    let file = place.file("out.dump", "before");
    let output = ["-o", file.to_str().expect("UTF-8")];
    place.fails(1, "dump", &[&output[..], &["--tree", "none"]].concat());
    assert_eq!(fs::read(&file).expect("still there"), b"before");
    place.ok("dump", &output);
    assert!(fs::read_to_string(&file).expect("written").ends_with("DATA=END\n"));
    let nowhere = place.path("none/out.dump");
    assert!(
        place.fails(3, "dump", &["-o", nowhere.to_str().expect("UTF-8")]).contains("none/out.dump")
    );
    let left: Vec<_> = fs::read_dir(place.path("")).expect("folder").collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_dump_with_one_database_goes_where_tree_says_and_with_several_does_not() {
    let place = filled();
    let file = place.path("all.dump");
    place.ok("dump", &["-o", file.to_str().expect("UTF-8")]);
    let to_one = [file.as_os_str(), OsStr::new("--tree"), OsStr::new("one")];
    let ran = place.run_on("one", "load", &to_one, b"");
    assert_eq!(ran.code, 2, "{}", ran.err);
    place.ok("dump", &["--tree", "main", "-o", file.to_str().expect("UTF-8")]);
    assert_eq!(place.run_on("one", "load", &to_one, b"").code, 0);
    assert_eq!(place.run_on("one", "trees", &NONE, b"").text(), "one\n");
}

#[test]
fn a_dump_that_was_cut_anywhere_loads_nothing() {
    let place = Place::new();
    place.ok("put", &["key", "value"]);
    let whole = place.ok("dump", &NONE);
    for length in 0..whole.len() - 1 {
        let ran =
            place.run_on("cut", "load", &["-", "--format", "dump"], &whole.as_bytes()[..length]);
        assert_eq!(ran.code, 3, "cut at {length}: {}", ran.err);
        assert!(!place.path("cut").exists());
    }
}
