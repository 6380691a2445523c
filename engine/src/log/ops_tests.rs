//! Operations there and back, cut anywhere, and bytes that are none.

use super::*;

const TREE: TreeId = TreeId(300);

fn samples<'a>(value: &'a [u8]) -> Vec<Op<'a>> {
    vec![
        Op::Put { tree: TREE, key: b"key", value },
        Op::Delete { tree: TreeId(u32::MAX), key: b"" },
        Op::Create { tree: TreeId(1), name: b"fruit" },
        Op::Drop { tree: TREE },
        Op::Rename { tree: TREE, name: b"f" },
        Op::Clear { tree: TreeId(0) },
        Op::Put { tree: TREE, key: b"", value: b"" },
        Op::Fill { tree: TREE },
        Op::Parts { first: u64::MAX, bytes: 1 << 40 },
    ]
}

fn encode(ops: &[Op<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for op in ops {
        let before = bytes.len();
        op.encode_into(&mut bytes);
        assert_eq!(bytes.len() - before, op.encoded_len(), "{op:?}");
    }
    bytes
}

#[test]
fn operations_come_back_as_they_were() {
    let value = [7; 1000];
    let ops = samples(&value);
    let bytes = encode(&ops);
    let found: Result<Vec<Op<'_>>, BadOps> = Ops::new(&bytes).collect();
    assert_eq!(found, Ok(ops));
    assert_eq!(Ops::new(&[]).next(), None);
}

#[test]
fn a_stream_gives_the_same_operations_wherever_it_is_cut() {
    let value: Vec<u8> = (0..300).map(|byte| byte as u8).collect();
    let ops = samples(&value);
    let bytes = encode(&ops);
    for piece_bytes in (1..40).chain([100, bytes.len()]) {
        let mut stream = OpStream::new();
        let mut found = 0;
        for piece in bytes.chunks(piece_bytes) {
            stream
                .feed(piece, |op| {
                    assert_eq!(op, ops[found]);
                    found += 1;
                    Ok::<(), BadOps>(())
                })
                .expect("all of it is good");
        }
        assert_eq!(found, ops.len());
        assert_eq!(stream.finish(), Ok(bytes.len() as u64));
    }
}

#[test]
fn a_cut_stream_is_an_error_at_the_operation_it_is_cut_in() {
    let ops = samples(b"value");
    let bytes = encode(&ops);
    let ends: Vec<usize> = (0..=ops.len()).map(|count| encode(&ops[..count]).len()).collect();
    for cut in 0..bytes.len() {
        let whole = ends.iter().rev().find(|&&end| end <= cut).copied().unwrap_or(0);
        let last = Ops::new(&bytes[..cut]).last();
        let mut stream = OpStream::new();
        stream.feed(&bytes[..cut], |_| Ok::<(), BadOps>(())).expect("cut, not bad");
        if whole == cut {
            assert!(last.is_none_or(|last| last.is_ok()), "cut at {cut}");
            assert_eq!(stream.finish(), Ok(cut as u64));
        } else {
            let expected = BadOps { at: whole as u64, what: "it is cut short" };
            assert_eq!(last, Some(Err(expected)), "cut at {cut}");
            assert_eq!(stream.finish(), Err(expected));
        }
    }
}

#[test]
fn bad_bytes_are_an_error_and_nothing_is_allocated_for_them() {
    let bad: [&[u8]; 7] = [
        &[0],
        &[9, 0],
        &[1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2],
        &[4, 0x80, 0],
        &[4, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[2, 1, 0xff, 0xff, 0xff, 0x7f],
        &[1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x7f],
    ];
    for bytes in bad {
        let mut ops = Ops::new(bytes);
        assert!(matches!(ops.next(), Some(Err(BadOps { at: 0, .. }))), "{bytes:?}");
        assert_eq!(ops.next(), None);
        let mut stream = OpStream::new();
        let fed = bytes.iter().try_for_each(|byte| {
            stream.feed(&[*byte], |_| Ok::<(), BadOps>(()))?;
            assert!(stream.pending.capacity() < 100);
            Ok::<(), BadOps>(())
        });
        assert!(fed.is_err(), "{bytes:?}");
    }
}

#[test]
fn arbitrary_bytes_never_panic() {
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..20_000 {
        let len = rng.usize(..40);
        let mut bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        if let Some(first) = bytes.first_mut() {
            *first %= 10;
        }
        let count = Ops::new(&bytes).filter(Result::is_ok).count();
        let mut stream = OpStream::new();
        let mut fed = 0;
        for piece in bytes.chunks(3) {
            let one = |_: Op<'_>| {
                fed += 1;
                Ok::<(), BadOps>(())
            };
            if stream.feed(piece, one).is_err() {
                break;
            }
        }
        assert_eq!(fed, count, "{bytes:?}");
    }
}
