//! The anomalies that Hermitage names, as scripts, and what each level makes of them.
//!
//! A script is run step by step in one thread, once at each level, on records `1 = 10` and `2 = 20`:
//!
//! ```text
//! T1 begin                 T1 get 1 = 10            what a read must find; `-` for nothing
//! T1 put 1 11              T1 delete 2              T1 lock 1 = 10: read, and nobody may change it
//! T1 where %3 = 1 2        the keys of records whose values 3 divides
//! T1 commit                T1 rollback
//! ```
//!
//! Reads find the same at both levels. What differs is who may commit.

use latchkv::io::sim::SimMachine;
use latchkv::{Db, Durability, Error, Isolation, Options, Transaction, TransactionOptions, Tree};
use std::collections::BTreeMap;

/// One script.
struct Script {
    anomaly: &'static str,
    what: &'static str,
    steps: &'static str,
    /// Who must commit for it to be the anomaly. `None`: its reads, which are part of the script, rule it out.
    anomalous: Option<&'static str>,
    /// Who commits, and what is left, under snapshot isolation.
    snapshot: [&'static str; 2],
    /// The same under serializable.
    serializable: [&'static str; 2],
}

/// Which anomalies the levels allow.
const ALLOWED: [(&str, bool, bool); 11] = [
    // anomaly, snapshot, serializable
    ("G0", false, false),
    ("G1a", false, false),
    ("G1b", false, false),
    ("G1c", false, false),
    ("OTV", false, false),
    ("PMP", false, false),
    ("P4", false, false),
    ("G-single", false, false),
    ("G2-item", true, false),
    ("G2", true, false),
    ("G2-two", true, false),
];

const SCRIPTS: &[Script] = &[
    Script {
        anomaly: "G0",
        what: "write cycle",
        steps: "T1 begin; T2 begin; T1 put 1 11; T2 put 1 12; T1 put 2 21; T1 commit; \
                T2 put 2 22; T2 commit",
        anomalous: Some("T1 T2"),
        snapshot: ["T1", "1=11 2=21"],
        serializable: ["T1", "1=11 2=21"],
    },
    Script {
        anomaly: "G1a",
        what: "aborted read",
        steps: "T1 begin; T2 begin; T1 put 1 101; T2 where %10 = 1 2; T2 get 1 = 10; T1 rollback; \
                T2 get 1 = 10; T2 commit; T3 begin; T3 get 1 = 10; T3 commit",
        anomalous: None,
        snapshot: ["T2 T3", "1=10 2=20"],
        serializable: ["T2 T3", "1=10 2=20"],
    },
    Script {
        anomaly: "G1b",
        what: "intermediate read",
        steps: "T1 begin; T2 begin; T1 put 1 101; T2 get 1 = 10; T1 put 1 11; T1 commit; \
                T2 get 1 = 10; T2 commit; T3 begin; T3 get 1 = 11; T3 commit",
        anomalous: None,
        snapshot: ["T1 T2 T3", "1=11 2=20"],
        serializable: ["T1 T2 T3", "1=11 2=20"],
    },
    Script {
        anomaly: "G1c",
        what: "circular information flow",
        // Neither sees the other, so that no information flows; it is a write skew instead.
        steps: "T1 begin; T2 begin; T1 put 1 11; T2 put 2 22; T1 get 2 = 20; T2 get 1 = 10; \
                T1 commit; T2 commit",
        anomalous: None,
        snapshot: ["T1 T2", "1=11 2=22"],
        serializable: ["T1", "1=11 2=20"],
    },
    Script {
        anomaly: "OTV",
        what: "observed transaction vanishes",
        steps: "T1 begin; T2 begin; T1 put 1 11; T1 put 2 19; T2 put 1 12; T1 commit; \
                T3 begin; T3 get 1 = 11; T2 put 2 18; T3 get 2 = 19; T2 commit; \
                T3 get 2 = 19; T3 get 1 = 11; T3 commit",
        anomalous: None,
        snapshot: ["T1 T3", "1=11 2=19"],
        serializable: ["T1 T3", "1=11 2=19"],
    },
    Script {
        anomaly: "OTV",
        what: "the second transaction begins behind the first",
        steps: "T1 begin; T1 put 1 11; T1 put 2 19; T1 commit; T2 begin; T3 begin; T2 put 1 12; \
                T3 get 1 = 11; T2 put 2 18; T2 commit; T3 get 2 = 19; T3 get 1 = 11; T3 commit",
        anomalous: None,
        snapshot: ["T1 T2 T3", "1=12 2=18"],
        serializable: ["T1 T2 T3", "1=12 2=18"],
    },
    Script {
        anomaly: "PMP",
        what: "predicate-many-preceders, read",
        steps: "T1 begin; T2 begin; T1 where %30 =; T2 put 3 30; T2 commit; T1 where %3 =; T1 commit",
        anomalous: None,
        snapshot: ["T2 T1", "1=10 2=20 3=30"],
        serializable: ["T2 T1", "1=10 2=20 3=30"],
    },
    Script {
        anomaly: "PMP",
        what: "predicate-many-preceders, written: all values grow by 10, beside the removal of 20",
        steps: "T1 begin; T2 begin; T1 where %1 = 1 2; T1 put 1 20; T1 put 2 30; \
                T2 where %20 = 2; T2 delete 2; T1 commit; T2 commit",
        anomalous: Some("T1 T2"),
        snapshot: ["T1", "1=20 2=30"],
        serializable: ["T1", "1=20 2=30"],
    },
    Script {
        anomaly: "P4",
        what: "lost update",
        steps: "T1 begin; T2 begin; T1 get 1 = 10; T2 get 1 = 10; T1 put 1 11; T2 put 1 11; \
                T1 commit; T2 commit",
        anomalous: Some("T1 T2"),
        snapshot: ["T1", "1=11 2=20"],
        serializable: ["T1", "1=11 2=20"],
    },
    Script {
        anomaly: "P4",
        what: "lost update, of a record that is removed",
        steps: "T1 begin; T2 begin; T1 get 1 = 10; T2 get 1 = 10; T1 delete 1; T2 put 1 11; \
                T1 commit; T2 commit",
        anomalous: Some("T1 T2"),
        snapshot: ["T1", "2=20"],
        serializable: ["T1", "2=20"],
    },
    Script {
        anomaly: "P4",
        what: "lost update, of a record that is new",
        steps: "T1 begin; T2 begin; T1 get 3 = -; T2 get 3 = -; T1 put 3 31; T2 put 3 32; \
                T2 commit; T1 commit",
        anomalous: Some("T2 T1"),
        snapshot: ["T2", "1=10 2=20 3=32"],
        serializable: ["T2", "1=10 2=20 3=32"],
    },
    Script {
        anomaly: "G-single",
        what: "read skew",
        steps: "T1 begin; T2 begin; T1 get 1 = 10; T2 get 1 = 10; T2 get 2 = 20; T2 put 1 12; \
                T2 put 2 18; T2 commit; T1 get 2 = 20; T1 commit",
        anomalous: None,
        snapshot: ["T2 T1", "1=12 2=18"],
        serializable: ["T2 T1", "1=12 2=18"],
    },
    Script {
        anomaly: "G-single",
        what: "read skew by predicate",
        steps: "T1 begin; T2 begin; T1 where %5 = 1 2; T2 put 1 12; T2 commit; T1 where %3 =; \
                T1 commit",
        anomalous: None,
        snapshot: ["T2 T1", "1=12 2=20"],
        serializable: ["T2 T1", "1=12 2=20"],
    },
    Script {
        anomaly: "G-single",
        what: "read skew by predicate, of records that are new and removed",
        steps: "T1 begin; T2 begin; T1 where %10 = 1 2; T2 delete 1; T2 put 3 30; T2 commit; \
                T1 where %10 = 1 2; T1 get 3 = -; T1 get 1 = 10; T1 commit",
        anomalous: None,
        snapshot: ["T2 T1", "2=20 3=30"],
        serializable: ["T2 T1", "2=20 3=30"],
    },
    Script {
        anomaly: "G-single",
        what: "read skew with a write: the removal of 20, which the other has changed",
        steps: "T1 begin; T2 begin; T1 get 1 = 10; T2 where %1 = 1 2; T2 put 1 12; T2 put 2 18; \
                T2 commit; T1 where %20 = 2; T1 delete 2; T1 commit",
        anomalous: Some("T2 T1"),
        snapshot: ["T2", "1=12 2=18"],
        serializable: ["T2", "1=12 2=18"],
    },
    Script {
        anomaly: "G-single",
        what: "read skew with a write, interleaved",
        steps: "T1 begin; T2 begin; T1 get 1 = 10; T2 put 1 12; T2 put 2 18; T1 where %20 = 2; \
                T1 delete 2; T2 commit; T1 commit",
        anomalous: Some("T2 T1"),
        snapshot: ["T2", "1=12 2=18"],
        serializable: ["T2", "1=12 2=18"],
    },
    Script {
        anomaly: "G2-item",
        what: "write skew",
        steps: "T1 begin; T2 begin; T1 get 1 = 10; T1 get 2 = 20; T2 get 1 = 10; T2 get 2 = 20; \
                T1 put 1 11; T2 put 2 21; T1 commit; T2 commit",
        anomalous: Some("T1 T2"),
        snapshot: ["T1 T2", "1=11 2=21"],
        serializable: ["T1", "1=11 2=20"],
    },
    Script {
        anomaly: "G2-item",
        what: "write skew over records that are absent",
        steps: "T1 begin; T2 begin; T1 get 3 = -; T2 get 4 = -; T1 put 4 40; T2 put 3 30; \
                T1 commit; T2 commit",
        anomalous: Some("T1 T2"),
        snapshot: ["T1 T2", "1=10 2=20 3=30 4=40"],
        serializable: ["T1", "1=10 2=20 4=40"],
    },
    Script {
        anomaly: "G2-item",
        what: "write skew where what is read is locked",
        steps: "T1 begin; T2 begin; T1 lock 2 = 20; T2 lock 1 = 10; T1 put 1 11; T2 put 2 21; \
                T1 commit; T2 commit",
        anomalous: Some("T1 T2"),
        snapshot: ["T1", "1=11 2=20"],
        serializable: ["T1", "1=11 2=20"],
    },
    Script {
        anomaly: "G2",
        what: "write skew by predicate: each adds what the other looked for",
        steps: "T1 begin; T2 begin; T1 where %3 =; T2 where %3 =; T1 put 3 30; T2 put 4 42; \
                T1 commit; T2 commit",
        anomalous: Some("T1 T2"),
        snapshot: ["T1 T2", "1=10 2=20 3=30 4=42"],
        serializable: ["T1", "1=10 2=20 3=30"],
    },
    Script {
        anomaly: "G2",
        what: "write skew by predicate: each removes one of two, as there is another",
        steps: "T1 begin; T2 begin; T1 where %10 = 1 2; T2 where %10 = 1 2; T1 delete 1; \
                T2 delete 2; T1 commit; T2 commit",
        anomalous: Some("T1 T2"),
        snapshot: ["T1 T2", ""],
        serializable: ["T1", "2=20"],
    },
    Script {
        anomaly: "G2-two",
        what: "a reader sees the second of two that may not both have been before it",
        steps: "T1 begin; T1 where %1 = 1 2; T2 begin; T2 get 2 = 20; T2 put 2 25; T2 commit; \
                T3 begin; T3 get 1 = 10; T3 get 2 = 25; T3 commit; T1 put 1 0; T1 commit",
        anomalous: Some("T2 T3 T1"),
        snapshot: ["T2 T3 T1", "1=0 2=25"],
        serializable: ["T2 T3", "1=10 2=25"],
    },
];

/// A script while it is run.
struct Run<'a> {
    db: &'a Db,
    tree: &'a Tree,
    isolation: Isolation,
    open: BTreeMap<&'a str, Transaction<'a>>,
    committed: Vec<&'a str>,
}

impl<'a> Run<'a> {
    fn step(&mut self, step: &'a str) {
        let (call, expected) = match step.split_once('=') {
            Some((call, expected)) => (call, expected.trim()),
            None => (step, ""),
        };
        let words: Vec<&str> = call.split_whitespace().collect();
        let [name, call, arguments @ ..] = words.as_slice() else { panic!("a step of {step:?}") };
        match *call {
            "begin" => {
                let options = TransactionOptions::new().isolation(self.isolation);
                let transaction = self.db.begin_with(&options).expect("open");
                self.open.insert(name, transaction);
                return;
            }
            "rollback" => return self.open.remove(name).expect("begun").rollback(),
            "commit" => match self.open.remove(name).expect("begun").commit() {
                Ok(_) => return self.committed.push(name),
                Err(Error::Conflict { .. }) => return,
                Err(error) => panic!("{step:?}: {error}"),
            },
            _ => {}
        }
        let transaction = self.open.get_mut(name).expect("begun");
        let text = |value: Option<Vec<u8>>| {
            value.map_or("-".to_owned(), |value| String::from_utf8(value).expect("digits"))
        };
        match (*call, arguments) {
            ("put", [key, value]) => transaction.put(self.tree, key, value).expect("small"),
            ("delete", [key]) => assert!(transaction.delete(self.tree, key).expect("readable")),
            ("get", [key]) => {
                let found = transaction.get(self.tree, key).expect("readable");
                assert_eq!(text(found), expected, "{step:?}");
            }
            ("lock", [key]) => {
                let found = transaction.get_for_update(self.tree, key).expect("readable");
                assert_eq!(text(found), expected, "{step:?}");
            }
            ("where", [divisor]) => {
                let divisor: u32 = divisor[1..].parse().expect("a number behind %");
                let found = transaction.iter(self.tree).map(|entry| {
                    let (key, value) = entry.expect("readable").into_pair();
                    (text(Some(key)), text(Some(value)).parse::<u32>().expect("a number"))
                });
                let found = found.filter(|(_, value)| value % divisor == 0).map(|(key, _)| key);
                assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{step:?}");
            }
            other => panic!("{other:?} in {step:?}"),
        }
    }
}

/// Who committed, and what is left.
fn outcome(script: &Script, isolation: Isolation) -> [String; 2] {
    let machine = SimMachine::new(1);
    let options = Options::new().cache_bytes(4 << 20).durability(Durability::None);
    let db = options.open_disks(machine.data(), machine.log()).expect("empty disks");
    let tree = db.tree("test").expect("new");
    tree.put("1", "10").expect("room");
    tree.put("2", "20").expect("room");
    let (open, committed) = (BTreeMap::new(), Vec::new());
    let mut run = Run { db: &db, tree: &tree, isolation, open, committed };
    script.steps.split(';').for_each(|step| run.step(step.trim()));
    assert!(run.open.is_empty(), "{}: all end", script.what);
    let committed = run.committed.join(" ");
    let left = tree.iter().map(|entry| {
        let entry = entry.expect("readable");
        format!("{}={}", entry.key().escape_ascii(), entry.value().escape_ascii())
    });
    [committed, left.collect::<Vec<_>>().join(" ")]
}

fn assert_outcomes(isolation: Isolation, expected: impl Fn(&Script) -> [&'static str; 2]) {
    for script in SCRIPTS {
        let outcome = outcome(script, isolation);
        let Script { anomaly, what, .. } = script;
        assert_eq!(outcome, expected(script), "{anomaly} ({what}) at {isolation:?}");
    }
}

#[test]
fn each_anomaly_ends_as_the_table_says_under_snapshot_isolation() {
    assert_outcomes(Isolation::Snapshot, |script| script.snapshot);
}

#[test]
fn each_anomaly_ends_as_the_table_says_under_serializable() {
    assert_outcomes(Isolation::Serializable, |script| script.serializable);
}

#[test]
fn snapshot_isolation_allows_write_skew_alone_and_serializable_nothing() {
    for (anomaly, snapshot, serializable) in ALLOWED {
        let scripts = || SCRIPTS.iter().filter(|script| script.anomaly == anomaly);
        assert!(scripts().next().is_some(), "{anomaly} has a script");
        for (isolation, allowed) in
            [(Isolation::Snapshot, snapshot), (Isolation::Serializable, serializable)]
        {
            let seen = scripts().any(|script| {
                script.anomalous.is_some_and(|anomalous| outcome(script, isolation)[0] == anomalous)
            });
            assert_eq!(seen, allowed, "{anomaly} at {isolation:?}");
        }
    }
    assert!(SCRIPTS.iter().all(|script| ALLOWED.iter().any(|(name, ..)| *name == script.anomaly)));
}
