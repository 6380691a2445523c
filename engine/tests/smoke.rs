//! smoke
use latchkv::*;
#[test]
fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    for pages in [4096u32, 16384] {
        let path = path.with_extension(pages.to_string());
        let db = Options::new().page_bytes(pages).cache_bytes(4 << 20).huge_pages(false).open(&path).unwrap();
        let t = db.tree("t").unwrap();
        let mut rng = fastrand::Rng::with_seed(1);
        let mut model = std::collections::BTreeMap::new();
        for i in 0..60000u64 {
            let k = (rng.u64(0..40000)).to_be_bytes().to_vec();
            if rng.u8(0..4) == 0 {
                assert_eq!(t.delete(&k).unwrap(), model.remove(&k).is_some(), "{i}");
            } else {
                let v = vec![i as u8; rng.usize(0..200)];
                t.put(&k, &v).unwrap();
                model.insert(k, v);
            }
        }
        let check = |t: &Tree, model: &std::collections::BTreeMap<Vec<u8>, Vec<u8>>| {
            assert_eq!(t.len().unwrap(), model.len() as u64);
            let got: Vec<_> = t.iter().map(|e| e.unwrap().into_pair()).collect();
            assert!(got.iter().map(|(a, b)| (a, b)).eq(model.iter()));
            let got: Vec<_> = t.iter().rev().map(|e| e.unwrap().into_pair()).collect();
            assert!(got.iter().map(|(a, b)| (a, b)).eq(model.iter().rev()));
            for (k, v) in model { assert_eq!(t.get(k).unwrap().as_ref(), Some(v)); }
        };
        check(&t, &model);
        println!("{}", db.stats());
        let r = db.check(|_| {}).unwrap();
        assert!(r.is_ok(), "{:?}", r.problems);
        drop(t);
        db.close().unwrap();
        let db = Options::new().cache_bytes(4 << 20).open(&path).unwrap();
        let t = db.tree("t").unwrap();
        check(&t, &model);
        let r = db.check(|_| {}).unwrap();
        assert!(r.is_ok(), "{:?}", r.problems);
        for k in model.keys() { assert!(t.delete(k).unwrap()); }
        assert_eq!(t.len().unwrap(), 0);
        let r = db.check(|_| {}).unwrap();
        assert!(r.is_ok(), "{:?}", r.problems);
        assert_eq!(t.bulk_load(model.iter()).unwrap(), model.len() as u64);
        check(&t, &model);
        let r = db.check(|_| {}).unwrap();
        assert!(r.is_ok(), "{:?}", r.problems);
        t.clear().unwrap();
        assert_eq!(t.iter().count(), 0);
        assert_eq!(t.bulk_load(model.iter()).unwrap(), model.len() as u64);
        t.put(b"big", vec![7u8; 3_000_000]).unwrap();
        assert_eq!(t.get(b"big").unwrap().unwrap().len(), 3_000_000);
        db.rename_tree("t", "u").unwrap();
        db.checkpoint().unwrap();
        assert!(db.drop_tree("u").unwrap());
        assert!(matches!(t.get(b"x"), Err(Error::Usage(Usage::TreeDropped(_)))));
        let r = db.check(|_| {}).unwrap();
        assert!(r.is_ok(), "{:?}", r.problems);
        println!("{}", db.stats());
    }
}
