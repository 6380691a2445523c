//! The node against a `BTreeMap`, and images against every kind of damage.

use super::image::{decode, encode};
use super::*;
use crate::id::BLOCK_BYTES;
use std::collections::BTreeMap;

const SIZES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

fn words(bytes: usize) -> Vec<AtomicU64> {
    (0..bytes / 8).map(|_| AtomicU64::new(0xdead_beef_dead_beef)).collect()
}

fn random_key(rng: &mut fastrand::Rng, max: usize) -> Vec<u8> {
    // Few distinct bytes, so that prefixes, heads and zero padding collide.
    let len = match rng.u8(0..10) {
        0 => 0,
        1 => rng.usize(0..=max),
        _ => rng.usize(1..12),
    };
    (0..len).map(|_| [0, 0, b'a', b'b', 0xff][rng.usize(0..5)]).collect()
}

fn read(page: Page<'_>, at: usize) -> (Vec<u8>, Vec<u8>) {
    let record = page.record(at).expect("slot in range");
    let mut front = KeyFront::default();
    page.key_front(&mut front).expect("well formed");
    let mut words = vec![7; at % 3];
    let (start, klen) = page.copy_record(record, &front, &mut words).expect("well formed");
    let mut bytes = bytes_of(&words)[start..][..klen + record.meta.payload_len()].to_vec();
    assert_eq!(page.key(at).as_deref(), Some(&bytes[..klen]));
    let value = bytes.split_off(klen);
    let mut copied = Vec::new();
    let start = page.copy_payload(record, &mut copied);
    assert_eq!(&bytes_of(&copied)[start..start + value.len()], &value[..]);
    (bytes, value)
}

fn contents(page: Page<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..page.count()).map(|at| read(page, at)).collect()
}

fn fill_randomly(
    page: Page<'_>,
    rng: &mut fastrand::Rng,
    steps: usize,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model = BTreeMap::new();
    let key_max = key_bytes_max(page.len_bytes());
    for _ in 0..steps {
        let key = random_key(rng, key_max);
        let found = page.find(&key);
        assert_eq!(found.exact, model.contains_key(&key), "{key:?}");
        assert_eq!(found.at, model.range(..key.clone()).count(), "{key:?}");
        if rng.u8(0..4) == 0 {
            if found.exact {
                page.remove(found.at);
                model.remove(&key);
            }
            continue;
        }
        let value_max = cell_bytes_max(page.len_bytes()) - 8 - key.len();
        let len = if rng.u8(0..20) == 0 { rng.usize(0..=value_max) } else { rng.usize(0..40) };
        let value: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        let payload = LeafPayload::Inline(&value);
        let done = if found.exact {
            page.replace_record(found.at, &key, 7, payload)
        } else {
            page.insert_record(found.at, &key, 7, payload)
        };
        if done {
            model.insert(key, value);
        }
        page.verify(PageId(9)).expect("an edit keeps the page well formed");
    }
    model
}

#[test]
fn edits_agree_with_a_map_at_every_page_size() {
    for bytes in SIZES {
        for seed in 0..6 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let memory = words(bytes);
            let page = Page::new(&memory);
            page.format(0, PageId(9), TreeId(3), b"", None);
            let model = fill_randomly(page, &mut rng, 600);
            let expected: Vec<_> = model.into_iter().collect();
            assert_eq!(contents(page), expected, "page of {bytes} bytes, seed {seed}");
        }
    }
}

#[test]
fn records_are_copied_whole_for_every_length_of_prefix_and_of_key_behind_it() {
    for prefix_len in 0..=40 {
        // A prefix that ends with zeros too: what stands for a missing byte of a head is not taken for one.
        for last in [0, b'p'] {
            let memory = words(4096);
            let page = Page::new(&memory);
            let mut prefix: Vec<u8> = (1..=prefix_len).map(|n| n as u8).collect();
            if let Some(byte) = prefix.last_mut() {
                *byte = last;
            }
            let with = |rest: &[u8]| [&prefix[..], rest].concat();
            page.format(0, PageId(9), TreeId(3), &prefix, Some(&with(&[0xff; 9])));
            assert_eq!(page.prefix_len(), prefix_len);
            let rests = (0..=9).flat_map(|len| [0, b'k', 0xfe].map(|byte| vec![byte; len]));
            let keys: std::collections::BTreeSet<Vec<u8>> = rests.map(|rest| with(&rest)).collect();
            let value = |key: &[u8]| vec![0xee; (key.len() * 7) % 19];
            let expected: Vec<_> = keys.into_iter().map(|key| (key.clone(), value(&key))).collect();
            for (key, value) in &expected {
                assert!(page.push_record(key, 5, LeafPayload::Inline(value)));
            }
            page.finish();
            assert_eq!(contents(page), expected, "prefix of {prefix_len} bytes");
        }
    }
}

#[test]
fn split_and_merge_keep_every_record_and_both_fences() {
    for bytes in SIZES {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (a, b) = (words(bytes), words(bytes));
            let (left, right) = (Page::new(&a), Page::new(&b));
            left.format(0, PageId(9), TreeId(3), b"", Some(&[0xff; 40]));
            let mut model = fill_randomly(left, &mut rng, 300);
            model.retain(|key, _| key.as_slice() < &[0xff; 40][..]);
            while left.count() > model.len() {
                left.remove(left.count() - 1);
            }
            if left.count() < 2 {
                continue;
            }
            let before = contents(left);
            let point = choose_leaf(left, 0, b"").expect("well formed");
            split_off(left, right, PageId(10), &point).expect("well formed");
            left.verify(PageId(9)).expect("left half is well formed");
            right.verify(PageId(10)).expect("right half is well formed");
            assert_eq!(left.upper(), Some(Some(point.separator.clone())));
            assert_eq!(right.lower(), Some(point.separator.clone()));
            assert_eq!(right.upper(), Some(Some(vec![0xff; 40])));
            assert_eq!([contents(left), contents(right)].concat(), before, "seed {seed}");
            assert!(merge_fits(left, right, &point.separator).expect("well formed"));
            merge(left, right, &point.separator).expect("well formed");
            left.verify(PageId(9)).expect("merged page is well formed");
            assert_eq!(contents(left), before, "seed {seed}");
        }
    }
}

#[test]
fn inner_split_moves_the_middle_separator_up_and_merge_pulls_it_down() {
    let (a, b) = (words(4096), words(4096));
    let (left, right) = (Page::new(&a), Page::new(&b));
    left.format(1, PageId(2), TreeId(1), b"", None);
    for n in 0..60_u64 {
        let key = format!("separator-{n:05}");
        assert!(left.push_child(key.as_bytes(), ChildWord::unhinted(PageId(100 + n))));
    }
    left.set_child(left.count(), ChildWord::unhinted(PageId(160)));
    left.finish();
    let children =
        |page: Page<'_>| (0..=page.count()).map(|at| page.child(at).page().0).collect::<Vec<_>>();
    let before = children(left);
    let point = choose_inner(left).expect("well formed");
    split_off(left, right, PageId(3), &point).expect("well formed");
    left.verify(PageId(2)).expect("left is well formed");
    right.verify(PageId(3)).expect("right is well formed");
    assert_eq!([children(left), children(right)].concat(), before);
    assert_eq!(right.find_child(&point.separator), 0);
    merge(left, right, &point.separator).expect("well formed");
    left.verify(PageId(2)).expect("merged page is well formed");
    assert_eq!(children(left), before);
    assert_eq!(
        left.find_child(b"separator-00003"),
        4,
        "a separator belongs to the child behind it"
    );
}

#[test]
fn ascending_inserts_leave_the_page_full_behind_them() {
    let memory = words(4096);
    let page = Page::new(&memory);
    page.format(0, PageId(9), TreeId(3), b"", None);
    let key = |n: usize| format!("{n:08}").into_bytes();
    let mut n = 0;
    while page.insert_record(n, &key(n), 0, LeafPayload::Inline(b"value")) {
        n += 1;
    }
    let point = choose_leaf(page, n, &key(n)).expect("well formed");
    assert!(point.at + 1 >= n, "cut at {} of {n}", point.at);
    assert!(point.separator.as_slice() > key(point.at - 1).as_slice());
    assert!(point.separator <= key(point.at));
    let other = words(4096);
    split_off(page, Page::new(&other), PageId(10), &point).expect("both parts fit");
}

#[test]
fn images_come_back_and_leave_out_the_hole() {
    for bytes in SIZES {
        let mut rng = fastrand::Rng::with_seed(bytes as u64);
        let (a, b) = (words(bytes), words(bytes));
        let (page, other) = (Page::new(&a), Page::new(&b));
        page.format(0, PageId(9), TreeId(3), b"", None);
        for n in 0..20_u32 {
            let done =
                page.push_record(&n.to_be_bytes(), 5, LeafPayload::Inline(&[rng.u8(..); 30]));
            assert!(done);
        }
        page.finish();
        let mut image = vec![u64::MAX; bytes / 8];
        let len = encode(page, &mut image);
        assert_eq!(len, BLOCK_BYTES, "a small page takes one block at {bytes}");
        decode(&image[..len / 8], other, PageId(9)).expect("own image");
        assert_eq!(contents(other), contents(page));
        let fault = decode(&image[..len / 8], other, PageId(8)).expect_err("another page's image");
        assert_eq!(fault.what, "page id");
    }
}

#[test]
fn damaged_images_are_refused_or_harmless() {
    let memory = words(4096);
    let page = Page::new(&memory);
    let mut rng = fastrand::Rng::with_seed(11);
    page.format(0, PageId(9), TreeId(3), b"aa", Some(b"b"));
    for n in 0..40_u32 {
        let key = [b"aa".as_slice(), &n.to_be_bytes()].concat();
        assert!(page.push_record(&key, 5, LeafPayload::Inline(&[1; 20])));
    }
    page.finish();
    let mut image = vec![0; 4096 / 8];
    let len = encode(page, &mut image) / 8;
    let target_memory = words(4096);
    let target = Page::new(&target_memory);
    let mut refused = 0;
    for round in 0..20_000 {
        let mut bad = image[..len].to_vec();
        for _ in 0..rng.usize(1..4) {
            let at = if round % 2 == 0 { rng.usize(0..60) } else { rng.usize(0..len) };
            bad[at] = if rng.bool() { bad[at] ^ 1 << rng.u32(0..64) } else { rng.u64(..) };
        }
        if decode(&bad, target, PageId(9)).is_err() {
            refused += 1;
            continue;
        }
        // Let in: then everything works on it.
        for at in 0..target.count() {
            let _ = read(target, at);
        }
        let key = b"aab";
        let found = target.find(key);
        let _ = target.insert_record(found.at, key, 1, LeafPayload::Inline(b"x"));
        let other_memory = words(4096);
        if target.count() > 1
            && let Some(point) = choose_leaf(target, 0, b"")
        {
            let _ = split_off(target, Page::new(&other_memory), PageId(10), &point);
        }
    }
    assert!(refused > 10_000, "only {refused} refused");
}

#[test]
fn a_reader_of_any_bytes_gets_an_answer() {
    let mut rng = fastrand::Rng::with_seed(5);
    let memory = words(4096);
    let page = Page::new(&memory);
    for _ in 0..20_000 {
        for word in &memory[..40] {
            word.store(if rng.bool() { rng.u64(..) } else { rng.u64(0..5000) }, Ordering::Relaxed);
        }
        let found = page.find(b"some key of a reader");
        let _ = page.child(found.at);
        let _ = page.child_slot(found.at);
        let _ = page.append_key(found.at, &mut Vec::new());
        let _ = (page.lower(), page.upper(), page.covers(b"k"), page.verify(PageId(1)));
        if let Some(record) = page.record(found.at) {
            let mut front = KeyFront::default();
            if page.key_front(&mut front).is_some() {
                let _ = page.copy_record(record, &front, &mut Vec::new());
            }
            let mut out = Vec::new();
            let start = page.copy_payload(record, &mut out);
            let _ = bytes_of(&out).get(start..start + record.meta.payload_len());
        }
    }
}

#[test]
fn a_record_copied_behind_the_front_of_another_page_lies_within_what_was_copied() {
    let mut rng = fastrand::Rng::with_seed(6);
    let memory = words(4096);
    let page = Page::new(&memory);
    for word in &memory {
        word.store(rng.u64(0..5000), Ordering::Relaxed);
    }
    let (mut front, mut copied) = (KeyFront::default(), 0);
    for _ in 0..20_000 {
        // The header is mostly such that something is found, the slots are anything.
        let prefix = vec![b'p'; rng.usize(0..60)];
        page.format(0, PageId(9), TreeId(3), &prefix, Some(&[&prefix[..], b"q"].concat()));
        if rng.bool() {
            memory[rng.usize(0..4)].store(rng.u64(..), Ordering::Relaxed);
        }
        let whole = page.key_front(&mut front).is_some();
        for word in &memory[..60] {
            // As a slot, the second is of a cell within the page and of a short key.
            let value = match rng.u8(0..3) {
                0 => rng.u64(..),
                1 => rng.u64(..) & 0x001f_01ff_ffff_ffff,
                _ => rng.u64(0..5000),
            };
            word.store(value, Ordering::Relaxed);
        }
        let mut out = vec![7; rng.usize(0..3)];
        for at in 0..page.count().min(50) {
            let Some(record) = page.record(at).filter(|_| whole) else { continue };
            if let Some((start, key_len)) = page.copy_record(record, &front, &mut out) {
                assert!(start + key_len + record.meta.payload_len() <= out.len() * 8);
                copied += 1;
            }
        }
    }
    assert!(copied > 1000, "only {copied} copied");
}

#[test]
fn every_page_size_holds_two_records_of_greatest_size() {
    for bytes in SIZES {
        let memory = words(bytes);
        let page = Page::new(&memory);
        let fence = |last: u8| [vec![b'm'; key_bytes_max(bytes) - 1], vec![last]].concat();
        // Fences that share nothing, so that no prefix is saved.
        page.format(
            0,
            PageId(9),
            TreeId(3),
            &[vec![1], fence(1)].concat()[..key_bytes_max(bytes)],
            Some(&fence(9)),
        );
        let value = vec![7; cell_bytes_max(bytes) - 8 - key_bytes_max(bytes)];
        for n in 0..2_u8 {
            let key = [vec![2 + n], vec![b'k'; key_bytes_max(bytes) - 1]].concat();
            assert!(
                page.push_record(&key, 0, LeafPayload::Inline(&value)),
                "page of {bytes} bytes"
            );
        }
    }
}
