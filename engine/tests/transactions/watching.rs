use super::fast;
use latchkv::{Event, WriteBatch};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_watch_gives_the_changes_of_its_prefix_in_commit_order() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let other = db.tree("other").expect("new");
    tree.put("user/0", "before").expect("room");
    let watch = tree.watch("user/", 1000).expect("open");
    tree.put("user/1", "a").expect("room");
    tree.put("order/1", "not watched").expect("room");
    other.put("user/1", "another tree").expect("room");
    let mut batch = WriteBatch::new();
    batch.put(&tree, "user/2", "b").expect("small");
    batch.delete(&tree, "user/1").expect("small");
    db.write(&batch).expect("room");
    tree.clear().expect("room");
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(watch.next_timeout(SOON).expect("four events"));
    }
    let lsns: Vec<u64> = events
        .iter()
        .map(|event| match event {
            Event::Put { lsn, .. } | Event::Delete { lsn, .. } | Event::Reset { lsn } => *lsn,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(lsns.is_sorted(), "{lsns:?}");
    assert_eq!(lsns[1], lsns[2], "one commit");
    assert!(
        matches!(&events[0], Event::Put { key, value, .. } if key == b"user/1" && value == b"a")
    );
    assert!(matches!(&events[1], Event::Delete { key, .. } if key == b"user/1"));
    assert!(matches!(&events[2], Event::Put { key, .. } if key == b"user/2"));
    assert!(matches!(&events[3], Event::Reset { .. }));
    assert_eq!(watch.next_timeout(Duration::from_millis(1)), None);
}

#[test]
fn a_watcher_that_does_not_fetch_keeps_nobody_waiting_and_is_told_what_it_missed() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let watch = tree.watch("", 10).expect("open");
    for number in 0..5000u32 {
        tree.put(number.to_be_bytes(), "v").expect("nobody waits");
    }
    db.sync().expect("room");
    let mut seen = 0;
    let overflow = loop {
        match watch.next_timeout(SOON).expect("more to come") {
            Event::Put { key, .. } => {
                assert_eq!(key, u32::to_be_bytes(seen));
                seen += 1;
            }
            Event::Overflow { lsn } => break lsn,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(seen, 10);
    assert!(overflow > 0);
    // It goes on behind what is missing.
    loop {
        tree.put("again", "v").expect("room");
        db.sync().expect("room");
        match watch.next_timeout(SOON).expect("more to come") {
            Event::Put { key, .. } if key == b"again" => break,
            _ => {}
        }
    }
}

#[test]
fn closing_the_database_ends_a_watch() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let mut watch = tree.watch("", 10).expect("open");
    let waiting = std::thread::spawn(move || watch.next());
    db.close().expect("room");
    assert_eq!(waiting.join().expect("no panic"), None);
}
