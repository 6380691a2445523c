//! Databases that cannot be written: on a mount that is read-only, and of another user. Reading works, writing
//! is refused by an error that says what to do, and nothing on the medium changes.
//!
//! The mount is made by a process in a mount namespace of its own, between fork and exec. Where the system does
//! not allow that, as in many containers, the test says on stderr that it showed nothing.

mod common;

use common::process::{assert_passed, this_program};
use common::{Model, Place, assert_same, assert_whole, place, tiny, value_of};
use latchkv::{Backend, Denied, Error, OpenError};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What tells a process of this test the database to look at, and how writing is refused there.
const PATH: &str = "LATCHKV_TEST_READ_ONLY_PATH";
const REASON: &str = "LATCHKV_TEST_READ_ONLY_REASON";

/// Past what the test harness keeps to itself when a test passes.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED {test}: {why}");
}

fn model() -> Model {
    let key = |i: u32| i.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec();
    let mut model: Model =
        (0..800).map(key).map(|key| (key.clone(), value_of(&key, 1, 90))).collect();
    model.insert(b"large".to_vec(), value_of(b"large", 1, 20_000));
    model
}

/// A database in a directory that anybody may enter.
fn sample() -> Place {
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    let tree = db.tree("t").expect("made");
    tree.bulk_load(model().iter()).expect("ascending");
    drop(tree);
    db.close().expect("room");
    let outer = place.path.parent().expect("it lies in a directory");
    fs::set_permissions(outer, fs::Permissions::from_mode(0o755)).expect("ours");
    place
}

/// Bytes, mode, owner, links, and times to the nanosecond, of the directory and all in it.
fn medium(path: &Path) -> BTreeMap<String, (Vec<u8>, Vec<i64>)> {
    let state = |path: &Path| {
        let metadata = fs::symlink_metadata(path).expect("there");
        let times =
            [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
        let words = [metadata.mode().into(), metadata.uid().into(), metadata.nlink() as i64];
        let bytes = if metadata.is_file() { fs::read(path).expect("readable") } else { Vec::new() };
        (bytes, [&times[..], &words[..]].concat())
    };
    let entries = fs::read_dir(path).expect("there").map(|entry| {
        let entry = entry.expect("readable");
        (entry.file_name().into_string().expect("ascii"), state(&entry.path()))
    });
    entries.chain([(".".to_owned(), state(path))]).collect()
}

/// Runs the process below over `place` as `command` was prepared. Gives the error if it did not start.
fn look(mut command: Command, place: &Place, reason: ErrorKind) -> io::Result<()> {
    let before = medium(&place.path);
    assert!(before.contains_key("data"));
    command.env(PATH, &place.path).env(REASON, reason.to_string());
    let output = command.output()?;
    assert_passed(&output);
    assert!(String::from_utf8_lossy(&output.stdout).contains("looked at it"));
    assert!(medium(&place.path) == before, "something on the medium changed");
    Ok(())
}

/// Not a test of its own: what the processes of the others run.
#[test]
fn other_process_reads_what_it_cannot_write() {
    let Ok(path) = std::env::var(PATH) else {
        return;
    };
    let path = Path::new(&path);
    let reason = std::env::var(REASON).expect("set with the path");
    for refused in [fs::write(path.join("new"), b""), fs::remove_file(path.join("data"))] {
        let kind = refused.expect_err("the system refuses to write here").kind();
        assert_eq!(kind.to_string(), reason);
    }
    for backend in [Backend::Auto, Backend::Uring, Backend::Mmap, Backend::Pread] {
        let options = tiny(4096).backend(backend);
        let db = options.open_read_only(path).expect("readable");
        let tree = db.tree("t").expect("there");
        let model = model();
        for (key, value) in model.iter().step_by(50) {
            assert_eq!(tree.get(key).expect("readable").as_ref(), Some(value));
        }
        assert_same(&tree, &model);
        assert_whole(&db);
        let denied = tree.put(b"k", b"v");
        assert!(matches!(denied, Err(Error::Denied(Denied::ReadOnly { .. }))), "{denied:?}");
        drop(tree);
        db.close().expect("nothing to write");
        for opened in [options.open(path), options.open_existing(path)] {
            let Err(Error::Open(error @ OpenError::NotWritable { .. })) = opened else {
                panic!("{opened:?}");
            };
            let text = error.to_string();
            for part in [path.to_str().expect("ascii"), &reason, "open it read-only"] {
                assert!(text.contains(part), "no {part:?} in {text:?}");
            }
        }
    }
    println!("looked at it");
}

/// Makes the mount at `path` read-only for the calling process alone: a bind mount of it onto itself, in a
/// namespace of its own. Nothing but system calls, as must be between fork and exec.
fn mount_read_only(path: &CString, flags: libc::c_ulong) -> io::Result<()> {
    fn check(result: libc::c_int) -> io::Result<()> {
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
    let mount = |source: *const libc::c_char, target: *const libc::c_char, flags| {
        // SAFETY: both are null or C strings that outlive the call; the file system type and the data may be
        // null for the flags used here.
        check(unsafe { libc::mount(source, target, std::ptr::null(), flags, std::ptr::null()) })
    };
    // SAFETY: no memory is passed. Only the calling process, which has one thread, gets other namespaces.
    let own = check(unsafe { libc::unshare(libc::CLONE_NEWNS) });
    own.or_else(|_| {
        // SAFETY: as above.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) })
    })?;
    mount(std::ptr::null(), c"/".as_ptr(), libc::MS_REC | libc::MS_PRIVATE)?;
    mount(path.as_ptr(), path.as_ptr(), libc::MS_BIND)?;
    mount(
        std::ptr::null(),
        path.as_ptr(),
        libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | flags,
    )
}

/// What the mount that `path` lies on has set, as flags for `mount`: a user namespace may not clear them.
fn mount_flags(path: &CString) -> libc::c_ulong {
    // SAFETY: all zeros is a value of this struct of numbers.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string, and a struct that lives through the call.
    let result = unsafe { libc::statvfs(path.as_ptr(), &mut found) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    let pairs = [
        (libc::ST_NOSUID, libc::MS_NOSUID),
        (libc::ST_NODEV, libc::MS_NODEV),
        (libc::ST_NOEXEC, libc::MS_NOEXEC),
        (libc::ST_NOATIME, libc::MS_NOATIME),
        (libc::ST_NODIRATIME, libc::MS_NODIRATIME),
        (libc::ST_RELATIME, libc::MS_RELATIME),
    ];
    pairs.iter().filter(|pair| found.f_flag & pair.0 != 0).fold(0, |flags, pair| flags | pair.1)
}

/// Whether the system does not let this process make mounts, or none of its own.
fn no_mounts_here(error: &io::Error) -> bool {
    let codes = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EINVAL, libc::ENOSPC, libc::EUSERS];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

#[test]
fn a_database_on_a_read_only_mount_is_read_and_nothing_on_it_changes() {
    for without in [None, Some("lock")] {
        let place = sample();
        if let Some(name) = without {
            fs::remove_file(place.path.join(name)).expect("there");
        }
        let path = CString::new(place.path.as_os_str().as_bytes()).expect("no zero in it");
        let flags = mount_flags(&path);
        let mut command = this_program("other_process_reads_what_it_cannot_write");
        // SAFETY: the closure makes system calls only, on memory made before the fork; it allocates nothing
        // and takes no lock.
        unsafe { command.pre_exec(move || mount_read_only(&path, flags)) };
        match look(command, &place, ErrorKind::ReadOnlyFilesystem) {
            Ok(()) => {}
            Err(error) if no_mounts_here(&error) => {
                let test = "a_database_on_a_read_only_mount";
                skipped(test, &format!("no mount namespace to be had: {error}"));
                return;
            }
            Err(error) => panic!("{error}"),
        }
        // The mount was that process's own.
        tiny(4096).open_existing(&place.path).expect("writable here");
    }
}

#[test]
fn a_database_that_permissions_protect_is_read_and_nothing_of_it_changes() {
    const NOBODY: u32 = 65534;
    let place = sample();
    let protect = |file: u32, dir: u32| {
        for name in ["data", "log", "lock"] {
            let mode = fs::Permissions::from_mode(file);
            fs::set_permissions(place.path.join(name), mode).expect("ours");
        }
        fs::set_permissions(&place.path, fs::Permissions::from_mode(dir)).expect("ours");
    };
    protect(0o444, 0o555);
    let mut command = this_program("other_process_reads_what_it_cannot_write");
    // Modes do not keep a privileged user out.
    let privileged = fs::File::options().write(true).open(place.path.join("data")).is_ok();
    if privileged {
        command.uid(NOBODY).gid(NOBODY);
    }
    match look(command, &place, ErrorKind::PermissionDenied) {
        Err(error) if privileged && error.kind() == ErrorKind::PermissionDenied => {
            let why = format!("another user cannot be, or cannot start this program: {error}");
            skipped("a_database_that_permissions_protect", &why);
        }
        looked => looked.expect("it starts"),
    }
    protect(0o644, 0o755);
    tiny(4096).open_existing(&place.path).expect("writable again");
}
