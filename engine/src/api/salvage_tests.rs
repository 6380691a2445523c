//! Salvage: every page of a database is damaged in turn, and what does not lie on it comes out.

use super::{Db, Gap, Lost, Options, Salvage, Salvaged, Tree};
use crate::error::{Error, Usage};
use crate::id::{BLOCK_BYTES, PageId, TreeId};
use crate::io::Backend;
use crate::node::{ChildWord, Kind, Page};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A tree page on disk, or a large value.
#[derive(Debug)]
struct OnDisk {
    page: PageId,
    offset: u64,
    blocks: u32,
    tree: Option<TreePage>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct TreePage {
    tree: TreeId,
    level: u8,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

/// A database, what it holds, and where it holds it.
struct Patient {
    _dir: tempfile::TempDir,
    path: PathBuf,
    models: BTreeMap<String, Model>,
    ids: BTreeMap<String, TreeId>,
    pages: Vec<OnDisk>,
    file: File,
}

fn options() -> Options {
    Options::new()
        .page_bytes(4096)
        .cache_bytes(2 << 20)
        .huge_pages(false)
        .backend(Backend::Pread)
        .checkpoint_bytes(u64::MAX)
}

/// A key that shares much with its neighbours, so that separators are long and inner pages few-fold.
fn key(number: u32) -> Vec<u8> {
    format!("{:-<90}{number:06}", "key").into_bytes()
}

fn fill_tree(tree: &Tree, model: Model) -> Model {
    for (key, value) in &model {
        tree.put(key, value).expect("room");
    }
    model
}

/// A tree of three levels, one of large values, and many that are named in a catalog of two levels.
fn fill(db: &Db) -> BTreeMap<String, Model> {
    let mut models = BTreeMap::new();
    let mut add = |name: &str, model| {
        models.insert(name.to_owned(), fill_tree(&db.tree(name).expect("room"), model));
    };
    add("deep", (0..450).map(|number| (key(number), vec![number as u8; 400])).collect());
    let large = |number: u8| {
        let len = if number.is_multiple_of(2) { 40 } else { 1500 * usize::from(number) };
        (vec![number], vec![number; len])
    };
    add("large", (0..10).map(large).collect());
    for number in 0..40u32 {
        let name = format!("{:_<150}{number:02}", "tree");
        add(&name, [(b"only".to_vec(), number.to_le_bytes().to_vec())].into());
    }
    models
}

fn describe(page: Page<'_>) -> TreePage {
    let (lower, upper) = (page.lower().expect("whole"), page.upper().expect("whole"));
    TreePage { tree: page.tree(), level: page.level(), lower, upper }
}

impl Patient {
    fn new() -> Patient {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("db");
        let db = options().create(&path).expect("room");
        let models = fill(&db);
        db.close().expect("room");
        let db = options().open_read_only(&path).expect("whole");
        let pool = &db.shared().pool;
        let mut pages = Vec::new();
        for page in pool.store().pages_from(PageId(1), usize::MAX) {
            let place = pool.store().placement(page).expect("it was listed");
            let reached = pool.reach(page);
            let tree = reached.ok().map(|(frame, _)| describe(pool.page(frame)));
            pages.push(OnDisk { page, offset: place.block.offset(), blocks: place.blocks, tree });
        }
        let id = |name: &String| {
            let tree = db.open_tree(name).expect("whole").expect("there");
            (name.clone(), tree.core().id)
        };
        let ids = models.keys().map(id).collect();
        drop(db);
        let file = File::options().read(true).write(true).open(path.join("data")).expect("there");
        Patient { _dir: dir, path, models, ids, pages, file }
    }

    fn id(&self, name: &str) -> TreeId {
        self.ids[name]
    }

    /// Tree pages of a tree, of one level.
    fn level(&self, tree: TreeId, level: u8) -> Vec<&OnDisk> {
        let is_it = |page: &&OnDisk| {
            page.tree.as_ref().is_some_and(|page| page.tree == tree && page.level == level)
        };
        self.pages.iter().filter(is_it).collect()
    }

    fn flip(&self, page: &OnDisk) {
        let mut byte = [0];
        let at = page.offset + u64::from(page.blocks) * BLOCK_BYTES as u64 - 9;
        self.file.read_exact_at(&mut byte, at).expect("in the file");
        self.file.write_all_at(&[byte[0] ^ 0x40], at).expect("in the file");
    }

    /// Salvages with these pages damaged, and makes them whole again.
    fn with_damaged<R>(&self, pages: &[&OnDisk], look: impl FnOnce(&Db, Salvage) -> R) -> R {
        pages.iter().for_each(|page| self.flip(page));
        let db = options().open_read_only(&self.path).expect("superblock and map are whole");
        let salvage = db.salvage().expect("room in the cache");
        let result = look(&db, salvage);
        drop(db);
        pages.iter().for_each(|page| self.flip(page));
        result
    }
}

fn all(records: impl Iterator<Item = crate::error::Result<Salvaged>>) -> (Model, Vec<Gap>) {
    let (mut model, mut gaps) = (Model::new(), Vec::new());
    let mut last = None;
    for found in records {
        match found.expect("damage is a gap, not an error") {
            Salvaged::Gap(gap) => gaps.push(gap),
            Salvaged::Record(entry) => {
                let (key, value) = entry.into_pair();
                assert!(last.is_none_or(|last| last < key), "records come out in order");
                last = Some(key.clone());
                model.insert(key, value);
            }
        }
    }
    (model, gaps)
}

fn lies_in(key: &[u8], lower: &[u8], upper: Option<&[u8]>) -> bool {
    key >= lower && upper.is_none_or(|upper| key < upper)
}

fn without(model: &Model, lost: &Lost) -> Model {
    let mut left = model.clone();
    left.retain(|key, _| match lost {
        Lost::Range { lower, upper } => !lies_in(key, lower, upper.as_deref()),
        Lost::Value { key: lost } => key != lost,
    });
    left
}

#[test]
fn any_damaged_page_loses_its_own_key_range_and_nothing_else() {
    let patient = Patient::new();
    let deep = patient.id("deep");
    assert!(patient.level(deep, 1).len() > 1 && patient.level(deep, 2).len() == 1, "three levels");
    let mut large_values = 0;
    for damaged in patient
        .pages
        .iter()
        .filter(|page| page.tree.as_ref().is_none_or(|page| page.tree != TreeId::CATALOG))
    {
        patient.with_damaged(&[damaged], |_, salvage| {
            assert!(salvage.gaps.is_empty());
            let names: Vec<_> = salvage.trees.iter().map(|tree| tree.name()).collect();
            assert!(names.into_iter().eq(patient.models.keys().map(|name| Some(name.as_str()))));
            let mut found = Vec::new();
            for tree in &salvage.trees {
                let model = &patient.models[tree.name().expect("all have one")];
                assert_eq!(tree.counted(), model.len() as u64);
                let (records, gaps) = all(tree.records());
                let left = gaps.iter().fold(model.clone(), |left, gap| without(&left, &gap.lost));
                assert!(records == left, "{gaps:?}");
                assert!(gaps.iter().all(|gap| gap.tree == tree.id()));
                found.extend(gaps);
            }
            let [gap] = &found[..] else { panic!("{found:?}") };
            assert_eq!(gap.page, damaged.page);
            assert!(matches!(gap.cause, Error::Corrupt(_)));
            match (&gap.lost, &damaged.tree) {
                (Lost::Range { lower, upper }, Some(page)) => {
                    assert_eq!((lower, upper, gap.tree), (&page.lower, &page.upper, page.tree));
                }
                (Lost::Value { key }, None) => {
                    assert!(gap.tree == patient.id("large") && key[0] % 2 == 1);
                    large_values += 1;
                }
                other => panic!("{other:?}"),
            }
        });
    }
    assert_eq!(large_values, 5);
}

#[test]
fn a_damaged_page_of_the_catalog_hides_no_tree() {
    let patient = Patient::new();
    let leaves = patient.level(TreeId::CATALOG, 0);
    assert!(leaves.len() > 1, "a catalog of two levels");
    let damaged = leaves.iter().copied().chain(patient.level(TreeId::CATALOG, 1));
    for damaged in damaged {
        let page = damaged.tree.as_ref().expect("a tree page");
        patient.with_damaged(&[damaged], |_, salvage| {
            let [gap] = &salvage.gaps[..] else { panic!("{:?}", salvage.gaps) };
            let want = Lost::Range { lower: page.lower.clone(), upper: page.upper.clone() };
            assert_eq!((&gap.lost, gap.tree), (&want, TreeId::CATALOG));
            assert_eq!(salvage.trees.len(), patient.models.len());
            for tree in &salvage.trees {
                let (name, model) = patient
                    .models
                    .iter()
                    .find(|(name, _)| patient.id(name) == tree.id())
                    .expect("a tree that there was");
                let key = [b"n", name.as_bytes()].concat();
                // Leaves of an unreadable root of the catalog are found on their own.
                let lost = page.level == 0 && lies_in(&key, &page.lower, page.upper.as_deref());
                assert_eq!(tree.name(), (!lost).then_some(name.as_str()));
                assert_eq!(tree.counted(), model.len() as u64);
                let (records, gaps) = all(tree.records());
                assert!(records == *model && gaps.is_empty(), "{gaps:?}");
            }
        });
    }
}

#[test]
fn many_damaged_pages_are_as_many_gaps() {
    let patient = Patient::new();
    let mut leaves = patient.level(patient.id("deep"), 0);
    leaves.sort_by_key(|page| page.tree.clone().map(|page| page.lower));
    let catalog = patient.level(TreeId::CATALOG, 0);
    for step in [1, 2, 3] {
        let mut damaged: Vec<_> = leaves.iter().copied().step_by(step).collect();
        let leaves = damaged.len();
        damaged.extend(&catalog);
        patient.with_damaged(&damaged, |_, salvage| {
            assert_eq!(salvage.gaps.len(), catalog.len());
            let deep = salvage.trees.iter().find(|tree| tree.id() == patient.id("deep"));
            let (records, gaps) = all(deep.expect("its root is whole").records());
            assert_eq!(gaps.len(), leaves);
            let model = patient.models["deep"].clone();
            let left = gaps.iter().fold(model, |left, gap| without(&left, &gap.lost));
            assert!(records == left && (step > 1) != left.is_empty());
        });
    }
}

#[test]
fn a_file_that_ends_too_soon_leaves_what_lies_before_its_end() {
    let patient = Patient::new();
    let db = options().open_read_only(&patient.path).expect("whole");
    let tree = db.open_tree("deep").expect("whole").expect("there");
    let leaves = patient.level(patient.id("deep"), 0);
    let mut offsets: Vec<u64> = leaves.iter().map(|page| page.offset).collect();
    offsets.sort_unstable();
    // The way to the first leaf is in memory by then.
    tree.first().expect("whole");
    patient.file.set_len(offsets[offsets.len() / 2]).expect("it shrinks");
    let (records, gaps) = all(tree.salvage());
    assert!(gaps.iter().any(|gap| matches!(gap.cause, Error::Io { .. })), "{gaps:?}");
    let model = patient.models["deep"].clone();
    let left = gaps.iter().fold(model, |left, gap| without(&left, &gap.lost));
    assert!(records == left && !left.is_empty());
}

#[test]
fn whole_pages_in_wrong_places_are_gaps_and_lead_in_no_circle() {
    let patient = Patient::new();
    let db = options().open_read_only(&patient.path).expect("whole");
    let tree = db.open_tree("deep").expect("whole").expect("there");
    let pool = &db.shared().pool;
    let (root, _) = pool.reach(tree.core().root).expect("whole");
    let root = (pool.page(root), pool.latch(root));
    let child = |at: usize| root.0.child(at).page();
    let foreign = db.open_tree("large").expect("whole").expect("there").core().root;
    let leaf = patient.level(patient.id("deep"), 0)[0].page;
    let right = child(0);
    for (wrong, what) in [
        (child(1), "fence keys"),
        (tree.core().root, "level of the page"),
        (leaf, "level of the page"),
        (foreign, "tree of the page"),
        (PageId(1 << 39), "page is not in the map"),
    ] {
        let set = |page| {
            let x = root.1.exclusive();
            root.0.set_child(0, ChildWord::unhinted(page));
            drop(x);
        };
        set(wrong);
        let (records, gaps) = all(tree.salvage());
        set(right);
        let [gap] = &gaps[..] else { panic!("{what}: {gaps:?}") };
        let Error::Corrupt(cause) = &gap.cause else { panic!("{what}: {gap:?}") };
        assert_eq!((cause.what, gap.page, cause.tree), (what, wrong, Some(tree.core().id)));
        let want = Lost::Range { lower: Vec::new(), upper: root.0.key(0) };
        assert_eq!(gap.lost, want, "{what}");
        assert!(records == without(&patient.models["deep"], &want), "{what}");
    }
    assert_eq!(root.0.kind(), Some(Kind::Inner));
}

#[test]
fn salvage_beside_a_writer_gives_every_permanent_record_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = options().cache_bytes(1 << 20).create(dir.path().join("db")).expect("room");
    let tree = db.tree("t").expect("room");
    let permanent: Model = (0..300).map(|n| (key(3 * n), vec![7; 300])).collect();
    fill_tree(&tree, permanent.clone());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0u64;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                for n in (0..300).filter(|n| n % 7 != 3) {
                    let key = key(3 * n + 1);
                    match round.is_multiple_of(2) {
                        true => tree.put(&key, vec![1; 350]).expect("room"),
                        false => drop(tree.delete(&key).expect("room")),
                    }
                }
                round += 1;
            }
        });
        for _ in 0..15 {
            let (mut records, gaps) = all(tree.salvage());
            assert!(gaps.is_empty(), "{gaps:?}");
            records.retain(|key, _| permanent.contains_key(key));
            assert!(records == permanent);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().expect("the writer ends");
    });
}

#[test]
fn what_is_no_damage_is_an_error_that_stays() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = options().create(dir.path().join("db")).expect("room");
    let tree = db.tree("t").expect("room");
    tree.put("a", "1").expect("room");
    let (mut before, mut after) = (tree.salvage(), tree.salvage());
    assert!(matches!(before.next(), Some(Ok(Salvaged::Record(_)))));
    db.drop_tree("t").expect("room");
    for _ in 0..2 {
        for salvage in [&mut before, &mut after] {
            let next = salvage.next();
            assert!(matches!(next, Some(Err(Error::Usage(Usage::TreeDropped(_))))), "{next:?}");
        }
    }
    assert!(db.salvage().expect("open").trees.is_empty());
    let other = db.clone();
    db.close().expect("room");
    assert!(matches!(other.salvage(), Err(Error::Closed)));
}

#[test]
fn a_gap_is_told_in_words() {
    let lost = |lower: &str, upper: Option<&str>| {
        Lost::Range { lower: lower.into(), upper: upper.map(|upper| upper.into()) }.to_string()
    };
    assert_eq!(lost("", None), "all keys");
    assert_eq!(lost("a", None), "keys from \"a\" to the last");
    assert_eq!(lost("", Some("b")), "keys from the first to below \"b\"");
    assert_eq!(lost("a", Some("b\0")), "keys from \"a\" to below \"b\\x00\"");
    assert_eq!(Lost::Value { key: b"k".to_vec() }.to_string(), "the value of key \"k\"");
}
