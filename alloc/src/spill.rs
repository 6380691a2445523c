//! [`Spill`]: memory of segments in mapped temporary files.
//!
//! ```text
//!   file     16 MiB, without a name, mapped                          as many as are needed
//!            [ place | place | place |  ...  | place ]               a place is a segment
//!
//!   take         from the first file with a free place; without one, from a new file
//!   give         the place is free again; a file with no place taken is *empty*
//!   take_empty   all empty files but one, to be unmapped
//! ```
//!
//! Versions that an old snapshot keeps alive are pushed and rarely read. In a mapped file the system may write
//! them out and take the memory for something else, and nothing is lost when it cannot.
//!
//! Not durable: the files have no name and are gone with the process. Not a heap: places have one size, and a
//! request for another size gets a file of its own.
//!
//! # A full disk
//!
//! Storing to a mapped hole of a file on a full disk is a signal that ends the process. So the blocks of a file
//! are allocated (`posix_fallocate`) before it is mapped, and a full disk is an error of [`Spill::take`]. What
//! that cannot prevent: a file system that writes to other blocks than those allocated (copy on write with
//! snapshots of it taken meanwhile), and a disk that fails to read back.
//!
//! The descriptor is closed once the file is mapped, so that spilling uses no descriptors.
//!
//! # Invariants
//!
//! - \[S1\] The mapping of a file lasts as long as any [`Place`] in it: each holds a reference to it.
//! - \[S2\] The places of a file do not overlap and lie inside it, and each exists as a value at most once: it is
//!   made when the file is, kept in `free` or owned by who took it.
//! - \[S3\] Nobody else knows the file: it has no name and its descriptor is closed, so its size and content are
//!   changed by nobody else.
//!
//! Tested below, and with the arena in `segments`.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of a mapped file, owned by who holds this. They are zero, or what an earlier owner left.
#[derive(Debug)]
pub(crate) struct Place {
    start: NonNull<u8>,
    bytes: usize,
    map: Arc<MmapRaw>,
}

// SAFETY: [S1] [S2] the bytes belong to this value alone and to no thread, and the mapping is reference-counted.
unsafe impl Send for Place {}
// SAFETY: as for Send: by a shared reference the bytes can only be read.
unsafe impl Sync for Place {}

impl Place {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: [S1] mapped while `self` lives, [S2] no other value reaches these bytes, so they change only
        // through `&mut self`; [S3] nor does another process.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

/// One mapped file and those of its places that nobody has.
#[derive(Debug)]
pub(crate) struct SpillFile {
    map: Arc<MmapRaw>,
    free: Vec<Place>,
    place_bytes: usize,
    place_count: usize,
}

impl SpillFile {
    /// A new file, all places free.
    fn new(directory: &Path, file_bytes: usize, place_bytes: usize) -> io::Result<SpillFile> {
        let file = tempfile::tempfile_in(directory)?;
        allocate(&file, file_bytes)?;
        let map = Arc::new(MmapOptions::new().len(file_bytes).map_raw(&file)?);
        let start = NonNull::new(map.as_mut_ptr()).ok_or(io::ErrorKind::OutOfMemory)?;
        let place_count = file_bytes / place_bytes;
        // Back to front, so that `pop` gives the first place first.
        let free = (0..place_count).rev().map(|index| {
            // SAFETY: index < file_bytes / place_bytes, so the place ends inside the mapping.
            let start = unsafe { start.add(index * place_bytes) };
            Place { start, bytes: place_bytes, map: Arc::clone(&map) }
        });
        let free = free.collect();
        Ok(SpillFile { map, free, place_bytes, place_count })
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.place_count
    }
}

/// Gives out places in mapped temporary files.
#[derive(Debug)]
pub(crate) struct Spill {
    directory: PathBuf,
    place_bytes: usize,
    file_bytes: usize,
    files: Vec<SpillFile>,
    held_bytes: usize,
}

impl Spill {
    /// Files of `file_bytes` in `directory`, cut into places of `place_bytes`. Makes no file yet.
    pub(crate) fn new(directory: PathBuf, place_bytes: usize, file_bytes: usize) -> Spill {
        let file_bytes = file_bytes.max(place_bytes);
        Spill { directory, place_bytes, file_bytes, files: Vec::new(), held_bytes: 0 }
    }

    /// A place of `bytes` bytes.
    ///
    /// # Errors
    /// What the system says when it gives no file of that size, or no address space for it.
    pub(crate) fn take(&mut self, bytes: usize) -> io::Result<Place> {
        let with_room = |file: &&mut SpillFile| file.place_bytes == bytes && !file.free.is_empty();
        if let Some(place) = self.files.iter_mut().find(with_room).and_then(|file| file.free.pop())
        {
            return Ok(place);
        }
        let file_bytes = if bytes == self.place_bytes { self.file_bytes } else { bytes };
        let mut file = SpillFile::new(&self.directory, file_bytes, bytes)?;
        let place = file.free.pop().expect("a file is at least one place");
        self.held_bytes += file_bytes;
        self.files.push(file);
        Ok(place)
    }

    /// Takes a place back.
    pub(crate) fn give(&mut self, place: Place) {
        let home = self.files.iter_mut().find(|file| Arc::ptr_eq(&file.map, &place.map));
        home.expect("a file stays while a place of it is out").free.push(place);
    }

    /// Takes the empty files out of use, except for one that the next places can come from. Dropping what it gives
    /// unmaps them, which takes time by their size: done without a lock.
    pub(crate) fn take_empty(&mut self) -> Vec<SpillFile> {
        let mut kept = false;
        let place_bytes = self.place_bytes;
        let in_excess = |file: &mut SpillFile| {
            let stays = file.place_bytes == place_bytes && !kept;
            kept |= file.is_empty() && stays;
            file.is_empty() && !stays
        };
        let empty: Vec<SpillFile> = self.files.extract_if(.., in_excess).collect();
        self.held_bytes -= empty.iter().map(|file| file.map.len()).sum::<usize>();
        empty
    }

    /// Bytes of all files.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

/// Makes the file `bytes` long with all blocks allocated.
#[cfg(target_os = "linux")]
fn allocate(file: &File, bytes: usize) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let len = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    loop {
        // SAFETY: the descriptor is open while `file` is borrowed; the call touches no memory of ours.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
            0 => return Ok(()),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Without a call that allocates blocks there is no spilling: a full disk must be an error.
#[cfg(not(target_os = "linux"))]
fn allocate(_file: &File, _bytes: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn spill(place_bytes: usize, file_bytes: usize) -> (Spill, tempfile::TempDir) {
        let directory = tempfile::tempdir().expect("temporary directory");
        (Spill::new(directory.path().to_owned(), place_bytes, file_bytes), directory)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn places_do_not_overlap_and_keep_what_is_stored() {
        let (mut spill, _directory) = spill(4096, 16384);
        let mut places: Vec<Place> = (0..11).map(|_| spill.take(4096).expect("disk")).collect();
        for (number, place) in places.iter_mut().enumerate() {
            place.bytes_mut().fill(number as u8);
        }
        for (number, place) in places.iter().enumerate() {
            assert!(place.bytes().iter().all(|&byte| byte == number as u8));
            assert_eq!(place.bytes().len(), 4096);
        }
        assert_eq!(spill.held_bytes(), 3 * 16384);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn files_are_reused_and_empty_ones_go_but_for_one() {
        let (mut spill, _directory) = spill(4096, 8192);
        for _ in 0..5 {
            let places: Vec<Place> = (0..8).map(|_| spill.take(4096).expect("disk")).collect();
            assert_eq!(spill.held_bytes(), 4 * 8192);
            places.into_iter().for_each(|place| spill.give(place));
            assert_eq!(spill.held_bytes(), 4 * 8192);
        }
        let kept = spill.take(4096).expect("disk");
        drop(spill.take_empty());
        assert_eq!(spill.held_bytes(), 2 * 8192, "one in use and one empty");
        spill.give(kept);
        drop(spill.take_empty());
        assert_eq!(spill.held_bytes(), 8192);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn another_size_has_a_file_of_its_own_that_goes_with_it() {
        let (mut spill, _directory) = spill(4096, 8192);
        let mut large = spill.take(50_000).expect("disk");
        large.bytes_mut().fill(7);
        let small = spill.take(4096).expect("disk");
        assert_eq!(spill.held_bytes(), 50_000 + 8192);
        spill.give(large);
        drop(spill.take_empty());
        assert_eq!(spill.held_bytes(), 8192);
        spill.give(small);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn no_room_is_an_error_and_leaves_no_file() {
        let (mut absurd, _directory) = spill(4096, 1 << 62);
        assert!(absurd.take(4096).is_err());
        assert_eq!(absurd.held_bytes(), 0);
        let mut nowhere = Spill::new("/nonexistent/directory".into(), 4096, 8192);
        assert!(nowhere.take(4096).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_place_outlives_the_spill() {
        let (mut spill, directory) = spill(4096, 8192);
        let mut place = spill.take(4096).expect("disk");
        drop(spill);
        drop(directory);
        place.bytes_mut().fill(3);
        assert_eq!(place.bytes()[4095], 3);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn files_have_no_name() {
        let (mut spill, directory) = spill(4096, 8192);
        let _place = spill.take(4096).expect("disk");
        assert_eq!(std::fs::read_dir(directory.path()).expect("directory").count(), 0);
    }
}
