//! One shared function that every backend passes, on tmpfs and on the disk of the build.

use super::*;
use crate::id::BLOCK_BYTES;
use std::fs::OpenOptions;
use std::path::PathBuf;

const BACKENDS: [Backend; 4] = [Backend::Auto, Backend::Uring, Backend::Mmap, Backend::Pread];

/// Directories to test in: the one of the build, that of the system, and a tmpfs where there is one.
fn places() -> Vec<PathBuf> {
    let build = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let places = [build, Some(std::env::temp_dir()), Some(PathBuf::from("/dev/shm"))];
    places.into_iter().flatten().filter(|place| tempfile::tempfile_in(place).is_ok()).collect()
}

fn with_disks(test: impl Fn(&dyn Disk)) {
    test(&SimDisk::new(1));
    for place in places() {
        for backend in BACKENDS {
            let file = tempfile::NamedTempFile::new_in(&place).expect("a place that is writable");
            let open = file.reopen().expect("just created");
            let disk =
                open_disk(open, file.path(), backend, false).expect("any backend falls back");
            println!("{backend:?} in {}: {:?}", place.display(), disk.backend());
            test(&*disk);
        }
    }
}

/// Block `number` of generation `generation`, unlike any other.
fn filled(buf: &mut [u8], number: u64, generation: u64) {
    for (index, word) in buf.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = (number << 40 ^ generation << 20 ^ index as u64).to_le_bytes();
    }
}

fn buf(number: u64, generation: u64, blocks: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::new(blocks * BLOCK_BYTES);
    filled(&mut buf, number, generation);
    buf
}

fn at(number: u64) -> u64 {
    number * BLOCK_BYTES as u64
}

#[test]
fn every_backend_keeps_a_batch_of_writes() {
    with_disks(|disk| {
        // More than fit in flight at once, out of order, with runs of neighbours and gaps.
        let mut blocks: Vec<(u64, AlignedBuf)> = Vec::new();
        for number in (0..220).rev().filter(|number| number % 7 != 0) {
            blocks.push((number, buf(number, 1, 1)));
        }
        let writes: Vec<Write<'_>> =
            blocks.iter().map(|(number, bytes)| Write { offset: at(*number), bytes }).collect();
        disk.write(&writes).expect("batch");
        disk.sync().expect("sync");
        assert_eq!(disk.len_bytes().expect("length"), at(220));
        let mut found = AlignedBuf::new(BLOCK_BYTES);
        for number in 0..220 {
            disk.read(at(number), &mut found).expect("inside");
            if number % 7 == 0 {
                assert!(found.iter().all(|&byte| byte == 0), "a gap reads as zeros");
            } else {
                assert!(found[..] == buf(number, 1, 1)[..], "block {number}");
            }
        }
        disk.write(&[]).expect("nothing to do");
    });
}

#[test]
fn every_backend_reads_what_was_written_last_as_the_file_grows() {
    with_disks(|disk| {
        for generation in 1..6 {
            for number in 0..generation * 3 {
                let bytes = buf(number, generation, 1);
                disk.write(&[Write { offset: at(number), bytes: &bytes }]).expect("write");
            }
            let mut found = AlignedBuf::new(generation as usize * 3 * BLOCK_BYTES);
            disk.read(0, &mut found).expect("all of it");
            for (number, found) in (0..).zip(found.chunks(BLOCK_BYTES)) {
                assert!(found == &buf(number, generation, 1)[..], "block {number}");
            }
        }
    });
}

#[test]
fn every_backend_reads_a_batch_and_says_of_each_read_what_became_of_it() {
    with_disks(|disk| {
        let bytes = buf(1, 1, 200);
        disk.write(&[Write { offset: 0, bytes: &bytes }]).expect("write");
        // More than are in flight at once, of different lengths, out of order, some of the same blocks.
        let ranges: Vec<(u64, usize)> =
            (0..150).rev().map(|n| (n * 31 % 190, 1 + n as usize % 5)).collect();
        let read = |extra: &[(u64, usize)], shift: usize| {
            let mut ranges = ranges.clone();
            ranges.splice(70..70, extra.iter().copied());
            let mut memory: Vec<AlignedBuf> = ranges
                .iter()
                .map(|&(_, blocks)| AlignedBuf::new((blocks + 1) * BLOCK_BYTES))
                .collect();
            let mut reads: Vec<Read<'_>> = ranges
                .iter()
                .zip(&mut memory)
                .map(|(&(block, blocks), memory)| Read {
                    offset: at(block) + shift as u64,
                    buf: &mut memory[shift..shift + blocks * BLOCK_BYTES],
                })
                .collect();
            let outcomes = disk.read_many(&mut reads);
            assert_eq!(outcomes.len(), ranges.len());
            for ((outcome, read), (block, _)) in outcomes.iter().zip(&reads).zip(&ranges) {
                let from = read.offset as usize;
                match bytes.get(from..from + read.buf.len()) {
                    Some(expected) => {
                        outcome.as_ref().expect("inside");
                        assert!(*read.buf == *expected, "block {block}");
                    }
                    None => {
                        let error = outcome.as_ref().expect_err("past the end");
                        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "block {block}");
                    }
                }
            }
        };
        read(&[], 0);
        // Offsets and addresses that direct transfers do not take.
        read(&[], 24);
        // One that ends behind the file, one that begins there.
        read(&[(198, 4), (300, 1)], 0);
        assert!(disk.read_many(&mut []).is_empty());
        let error = disk.read_many(&mut [Read { offset: u64::MAX - 5, buf: &mut [0; 9] }]).pop();
        assert!(error.is_some_and(|outcome| outcome.is_err()));
    });
}

#[test]
fn every_backend_moves_a_value_of_several_mebibytes() {
    with_disks(|disk| {
        let bytes = buf(1, 2, 1000);
        disk.write(&[Write { offset: at(3), bytes: &bytes }]).expect("write");
        let mut found = AlignedBuf::new(bytes.len());
        disk.read(at(3), &mut found).expect("read");
        assert!(found[..] == bytes[..]);
    });
}

#[test]
fn every_backend_says_where_the_file_ends() {
    with_disks(|disk| {
        let eof = |offset: u64, len: usize| {
            let error = disk.read(offset, &mut vec![0; len]).expect_err("past the end");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{len} bytes at {offset}");
        };
        eof(0, 1);
        eof(0, BLOCK_BYTES);
        let bytes = buf(1, 1, 3);
        disk.write(&[Write { offset: 0, bytes: &bytes }]).expect("write");
        eof(at(2), 2 * BLOCK_BYTES);
        eof(at(3), 1);
        eof(u64::MAX - 10, 5);
        eof(u64::MAX, 5);
        let mut found = AlignedBuf::new(at(2) as usize);
        disk.read(at(1), &mut found).expect("up to the end");
        assert!(found[..] == bytes[BLOCK_BYTES..]);
        disk.read(at(3), &mut []).expect("nothing at the end");
    });
}

#[test]
fn every_backend_reads_any_range_into_any_address() {
    with_disks(|disk| {
        let bytes = buf(1, 1, 4);
        disk.write(&[Write { offset: 0, bytes: &bytes }]).expect("write");
        // The end of a file that was cut off anywhere is readable up to its last byte.
        disk.set_len(at(4) - 1000).expect("cut");
        let mut memory = vec![0; 5 * BLOCK_BYTES];
        let last = at(4) as usize - 1000;
        for (offset, len, shift) in [
            (0, 1, 0),
            (1, 100, 3),
            (4095, 2, 1),
            (4096, 4096, 8),
            (100, 9000, 0),
            (5000, last - 5000, 5),
        ] {
            let found = &mut memory[shift..shift + len];
            disk.read(offset as u64, found).expect("inside");
            assert!(found == &bytes[offset..offset + len], "{len} bytes at {offset}");
        }
        let error = disk.read(5000, &mut memory[..last - 4999]).expect_err("one byte too many");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn every_backend_writes_from_an_odd_address_and_refuses_parts_of_blocks() {
    with_disks(|disk| {
        let mut odd = vec![0; 3 * BLOCK_BYTES];
        filled(&mut odd, 9, 9);
        let even = buf(8, 8, 1);
        let shifted = &odd[8..8 + 2 * BLOCK_BYTES];
        disk.write(&[
            Write { offset: at(1), bytes: shifted },
            Write { offset: at(0), bytes: &even },
        ])
        .expect("copied where it must be");
        let mut found = AlignedBuf::new(3 * BLOCK_BYTES);
        disk.read(0, &mut found).expect("read");
        assert!(found[..BLOCK_BYTES] == even[..] && found[BLOCK_BYTES..] == *shifted);

        for (offset, len) in
            [(1, BLOCK_BYTES), (0, 100), (at(1), BLOCK_BYTES + 8), (u64::MAX - 4095, BLOCK_BYTES)]
        {
            let whole = Write { offset: 0, bytes: shifted };
            let error = disk
                .write(&[whole, Write { offset, bytes: &odd[..len] }])
                .expect_err("not whole blocks");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{len} bytes at {offset}");
        }
        disk.read(0, &mut found).expect("read");
        assert!(found[..BLOCK_BYTES] == even[..], "a refused batch writes nothing");
    });
}

#[test]
fn every_backend_cuts_and_lengthens() {
    with_disks(|disk| {
        let bytes = buf(1, 1, 4);
        disk.write(&[Write { offset: 0, bytes: &bytes }]).expect("write");
        let mut found = AlignedBuf::new(4 * BLOCK_BYTES);
        disk.read(0, &mut found).expect("read");
        disk.set_len(at(1)).expect("cut");
        assert_eq!(
            disk.read(at(1), &mut found[..1]).expect_err("cut").kind(),
            io::ErrorKind::UnexpectedEof
        );
        disk.set_len(at(4)).expect("lengthen");
        disk.read(0, &mut found).expect("read");
        assert!(found[..BLOCK_BYTES] == bytes[..BLOCK_BYTES]);
        assert!(found[BLOCK_BYTES..].iter().all(|&byte| byte == 0), "old bytes never come back");
        disk.sync().expect("sync");
    });
}

#[test]
fn every_backend_allocates_what_reads_as_zeros_and_leaves_what_is_there() {
    with_disks(|disk| {
        let bytes = buf(1, 1, 2);
        disk.write(&[Write { offset: at(1), bytes: &bytes }]).expect("write");
        disk.allocate(at(3), 0).expect("nothing to do");
        assert_eq!(disk.len_bytes().expect("length"), at(3));
        disk.allocate(at(2), at(40)).expect("room");
        assert_eq!(disk.len_bytes().expect("length"), at(42));
        disk.allocate(0, at(3)).expect("room that is there mostly");
        assert_eq!(disk.len_bytes().expect("length"), at(42), "never shorter");
        let mut found = AlignedBuf::new(42 * BLOCK_BYTES);
        disk.read(0, &mut found).expect("read");
        assert!(found[at(1) as usize..at(3) as usize] == bytes[..]);
        assert!(found[at(3) as usize..].iter().all(|&byte| byte == 0));
        let write = Write { offset: at(41), bytes: &bytes[..BLOCK_BYTES] };
        disk.write(&[write]).expect("room was made");
        disk.sync().expect("sync");
        assert!(disk.allocate(u64::MAX - at(1), at(2)).is_err(), "beyond all files");
    });
}

#[test]
fn every_backend_crosses_four_gibibytes() {
    with_disks(|disk| {
        let far = (4 << 30) - BLOCK_BYTES as u64;
        let bytes = buf(1, 1, 2);
        if let Err(error) = disk.write(&[Write { offset: far, bytes: &bytes }]) {
            // A file system or a limit of this machine that holds no such file.
            assert!(
                matches!(error.kind(), io::ErrorKind::FileTooLarge | io::ErrorKind::StorageFull),
                "{error}"
            );
            return;
        }
        let mut found = AlignedBuf::new(2 * BLOCK_BYTES);
        disk.read(far, &mut found).expect("read");
        assert!(found[..] == bytes[..]);
        disk.read(1 << 31, &mut found).expect("a hole");
        assert!(found.iter().all(|&byte| byte == 0));
    });
}

#[test]
fn every_backend_serves_many_threads() {
    with_disks(|disk| {
        let bytes = buf(0, 1, 64);
        disk.write(&[Write { offset: 0, bytes: &bytes }]).expect("write");
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let bytes = &bytes;
                scope.spawn(move || {
                    let own = at(64 + thread);
                    let mut found = AlignedBuf::new(BLOCK_BYTES);
                    for round in 0..40 {
                        let number = (round * 7 + thread) % 64;
                        disk.read(at(number), &mut found).expect("read");
                        assert!(found[..] == bytes[at(number) as usize..at(number + 1) as usize]);
                        let mine = buf(thread, round, 1);
                        disk.write(&[Write { offset: own, bytes: &mine }]).expect("write");
                        disk.read(own, &mut found).expect("read");
                        assert!(found[..] == mine[..]);
                    }
                });
            }
        });
    });
}

#[test]
fn a_read_only_file_is_read_and_never_written() {
    for place in places() {
        for backend in BACKENDS {
            let file = tempfile::NamedTempFile::new_in(&place).expect("a place that is writable");
            let bytes = buf(1, 1, 2);
            std::fs::write(file.path(), &*bytes).expect("write");
            let open = OpenOptions::new().read(true).open(file.path()).expect("open");
            let disk = open_disk(open, file.path(), backend, true).expect("any backend falls back");
            let mut found = AlignedBuf::new(bytes.len());
            disk.read(0, &mut found).expect("read");
            assert!(found[..] == bytes[..]);
            let error = disk.write(&[Write { offset: 0, bytes: &bytes }]).expect_err("read-only");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(disk.set_len(0).is_err() && disk.sync().is_err());
            assert!(disk.allocate(0, at(4)).is_err());
            assert_eq!(disk.len_bytes().expect("length"), at(2));
        }
    }
}

#[test]
fn a_fallback_says_why() {
    for place in places() {
        for (backend, name) in
            [(Backend::Uring, "uring"), (Backend::Mmap, "mmap"), (Backend::Pread, "pread")]
        {
            let file = tempfile::NamedTempFile::new_in(&place).expect("a place that is writable");
            let open = file.reopen().expect("just created");
            let report = open_disk(open, file.path(), backend, false)
                .expect("any backend falls back")
                .backend();
            assert!(report.name == name || report.name == "pread");
            let as_asked = report.name == name && (report.direct || backend != Backend::Uring);
            assert!(as_asked || report.note.is_some(), "{report:?}");
        }
    }
}

#[test]
fn a_directory_is_no_disk() {
    let place = std::env::temp_dir();
    let open = File::open(&place).expect("a directory opens");
    assert!(matches!(open_disk(open, &place, Backend::Auto, true), Err(Error::Io { .. })));
}

#[test]
fn a_full_disk_is_told_from_a_failing_one() {
    let path = Path::new("data");
    let full = disk_error("writing", path, io::Error::from_raw_os_error(libc::ENOSPC));
    assert!(matches!(full, Error::Full { op: "writing", .. }));
    let failed = disk_error("writing", path, io::Error::from_raw_os_error(libc::EIO));
    assert!(matches!(failed, Error::Io { .. }));
}

#[test]
fn opening_and_dropping_leaves_nothing_behind() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    for _ in 0..100 {
        let open = file.reopen().expect("just created");
        let disk =
            open_disk(open, file.path(), Backend::Auto, false).expect("any backend falls back");
        assert_eq!(disk.len_bytes().expect("length"), 0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_transfer_refused_in_direct_mode_goes_on_buffered() {
    use std::os::unix::fs::FileExt;

    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.as_file().write_all_at(&[5; 100], 0).expect("write");
    let Ok(disk) = uring::UringDisk::open(file.reopen().expect("just created")) else {
        return;
    };
    if !disk.backend().direct {
        return;
    }
    let refused = io::Error::from_raw_os_error(libc::EINVAL);
    assert!(!disk.leaves_direct(true, &io::Error::from_raw_os_error(libc::EIO)));
    assert!(disk.leaves_direct(true, &refused));
    let report = disk.backend();
    assert!(!report.direct && report.note.is_some());
    let mut found = [0; 100];
    disk.read(0, &mut found).expect("buffered");
    assert_eq!(found, [5; 100]);
}
