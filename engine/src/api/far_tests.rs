//! A whole database beyond 2 GiB and 4 GiB, in a sparse file, over each backend for files.

use super::options::Files;
use super::{Db, Options};
use crate::store::Store;
use crate::store::tests::far::{FILE_BACKENDS, SparseFile};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const PAGE_BYTES: u32 = 4096;

/// Some hundred leaves and a few large values.
fn put(db: &Db, model: &mut Model, generation: u8) {
    let tree = db.tree("t").expect("room");
    for i in 0..800_u32 {
        let key = i.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec();
        let len = if i % 100 == 0 { 30_000 } else { 200 };
        let value = vec![generation ^ i as u8; len];
        tree.put(&key, &value).expect("room");
        model.insert(key, value);
    }
}

fn assert_holds(db: &Db, model: &Model) {
    let tree = db.open_tree("t").expect("readable").expect("there");
    for (key, value) in model.iter().step_by(7) {
        assert_eq!(tree.get(key).expect("readable").as_ref(), Some(value));
    }
    let mut expected = model.iter();
    for entry in tree.iter() {
        let entry = entry.expect("readable");
        assert!(
            expected
                .next()
                .is_some_and(|(key, value)| entry.key() == key && entry.value() == value)
        );
    }
    assert!(expected.next().is_none());
    let report = db.check(|_| {}).expect("readable");
    assert!(report.is_ok(), "{:?}", report.problems);
}

#[test]
fn a_database_beyond_two_and_four_gib_is_written_reopened_read_and_checked() {
    for backend in FILE_BACKENDS {
        for from in [(2 << 30) - (256 << 10), 5 << 30_u64] {
            let Some(file) = SparseFile::new() else { return };
            let store = Store::create(file.open(backend), &file.path, PAGE_BYTES).expect("empty");
            store.occupy_up_to(from);
            let machine = crate::io::sim::SimMachine::new(1);
            let options = Options::new().huge_pages(false).cache_bytes(1 << 20);
            let options = options.checkpoint_bytes(u64::MAX);
            let files =
                Files { store, log: Some(machine.log()), log_path: "log".into(), directory: None };
            let db = options.start(files, true).expect("empty");
            let mut model = Model::new();
            put(&db, &mut model, 0);
            db.checkpoint().expect("room");
            assert!(db.stats().store.file_bytes > from + (512 << 10), "{}", db.stats());
            assert_holds(&db, &model);
            put(&db, &mut model, 1);
            db.close().expect("room");
            file.assert_sparse();

            let open = || options.open_disks(file.open(backend), machine.log());
            let db = open().expect("whole");
            assert_holds(&db, &model);
            // The hole below is free now, and takes what is written from here on.
            put(&db, &mut model, 2);
            db.checkpoint().expect("room");
            db.checkpoint().expect("room");
            assert_holds(&db, &model);
            db.close().expect("room");
            file.assert_sparse();
            let db = open().expect("whole");
            assert_holds(&db, &model);
        }
    }
}
