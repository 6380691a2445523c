//! [`Region`]: anonymous memory that never moves and is never unmapped while it is owned.
//!
//! ```text
//!   reserve:  |..........|<------ rounded up to 2 MiB ------>|.....|     one mapping, 2 MiB too long
//!   trim:                |<------------ region ------------->|           what is left starts at a 2 MiB boundary
//!                         ^ ptr()                    ^ len() bytes
//! ```
//!
//! Frames, frame headers and the page hash live in regions. A dependent cache miss over 1 GiB costs about 175
//! ns in 2 MiB pages and up to 290 ns in 4 KiB pages, so a region asks for huge pages and says what it was
//! granted.
//!
//! Not a heap: nothing is given out or taken back here, and the bytes are the owner's to share.
//! [`Region::ptr`] is a raw pointer on purpose: readers race with writers, so the owner views the memory as
//! atomics.
//!
//! # What is asked, in this order
//!
//! 1. `MAP_HUGETLB` with 2 MiB pages. The kernel reserves the pages when it maps them (`MAP_NORESERVE` is not
//!    given). A control group may still refuse one when it is touched, by a signal; so all of them are made
//!    present at once, where the kernel can report that as an error (5.14), whatever `prefault` says.
//! 2. Plain pages and `MADV_HUGEPAGE`. [`HugePages::Transparent`] says that the kernel accepted the advice;
//!    how much it gave is in [`Region::huge_bytes`].
//! 3. Plain pages.
//!
//! # Invariants
//!
//! - \[M1\] `base` is a multiple of [`REGION_ALIGN`] and the start of `mapped_bytes` of readable, writable,
//!   private memory that this value alone owns, from `map` to `drop`.
//! - \[M2\] `len_bytes <= mapped_bytes`, and `mapped_bytes` is a multiple of the page size of the mapping.
//!
//! Tested below: alignment, zeroes, reporting, absurd sizes.

use std::io;
use std::ptr::NonNull;

/// Alignment of every region, and the size of a huge page here.
pub const REGION_ALIGN: usize = 2 << 20;

/// What a region should be made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegionOptions {
    /// Ask for 2 MiB pages.
    pub huge_pages: bool,
    /// Touch all of it now, so that later use meets no page fault and a shortage shows here.
    pub prefault: bool,
}

/// What kind of pages a region was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePages {
    /// Reserved 2 MiB pages: every byte lies in one.
    Hugetlb2M,
    /// The kernel took the advice to use huge pages and decides itself; see [`Region::huge_bytes`].
    Transparent,
    /// Plain pages.
    None,
}

/// Anonymous zeroed memory, aligned to [`REGION_ALIGN`], that never moves. Unmapped on drop.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len_bytes: usize,
    mapped_bytes: usize,
    granted: HugePages,
}

// SAFETY: [M1] the mapping belongs to no thread, and nothing here reads or writes it after `map`.
unsafe impl Send for Region {}
// SAFETY: as for Send: shared methods hand out an address and read plain fields.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `bytes` bytes of zeroed memory. 0 bytes map one page.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] or whatever the system says when it does not have that much;
    /// [`io::ErrorKind::InvalidInput`] when no address space could hold it.
    pub fn map(bytes: usize, options: RegionOptions) -> io::Result<Region> {
        let too_large = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("no address space holds {bytes} bytes"),
            )
        };
        if bytes > isize::MAX as usize - 2 * REGION_ALIGN {
            return Err(too_large());
        }
        let rounded = bytes.max(1).next_multiple_of(REGION_ALIGN);
        let region = match options.huge_pages.then(|| Region::map_hugetlb(bytes, rounded)).flatten()
        {
            Some(region) => region,
            None => Region::map_plain(bytes, options.huge_pages)?,
        };
        if options.prefault {
            region.prefault();
        }
        Ok(region)
    }

    /// Start of the memory.
    pub fn ptr(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes asked for.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a region is never empty of use: it maps at least a page"
    )]
    pub fn len(&self) -> usize {
        self.len_bytes
    }

    /// Bytes mapped, at least [`Region::len`].
    pub fn mapped_bytes(&self) -> usize {
        self.mapped_bytes
    }

    /// What kind of pages it was granted.
    pub fn granted(&self) -> HugePages {
        self.granted
    }

    /// Bytes that lie in huge pages now. Walks `/proc/self/smaps`: for statistics, not for a hot path.
    ///
    /// # Errors
    /// When the system does not tell, as outside Linux.
    pub fn huge_bytes(&self) -> io::Result<u64> {
        match self.granted {
            HugePages::Hugetlb2M => Ok(self.mapped_bytes as u64),
            HugePages::Transparent => {
                sys::transparent_huge_bytes(self.base.as_ptr() as usize, self.mapped_bytes)
            }
            HugePages::None => Ok(0),
        }
    }

    /// Reserved huge pages, if there are enough of them.
    fn map_hugetlb(len_bytes: usize, mapped_bytes: usize) -> Option<Region> {
        let base = sys::map_hugetlb(mapped_bytes)?;
        let region = Region { base, len_bytes, mapped_bytes, granted: HugePages::Hugetlb2M };
        // A system whose huge pages align less would break [M1]: drop the mapping and go on without.
        (base.as_ptr() as usize).is_multiple_of(REGION_ALIGN).then_some(region)
    }

    /// Plain pages, aligned by mapping too much and trimming both ends.
    fn map_plain(len_bytes: usize, advise_huge: bool) -> io::Result<Region> {
        let page = page_bytes();
        let mapped_bytes = len_bytes.max(1).next_multiple_of(page);
        let reserved = mapped_bytes + REGION_ALIGN;
        let start = sys::map(reserved)?;
        let address = start.as_ptr() as usize;
        let head = address.next_multiple_of(REGION_ALIGN) - address;
        let tail = REGION_ALIGN - head;
        // SAFETY: head <= REGION_ALIGN < reserved, so the sum stays inside the mapping just made.
        let base = unsafe { start.add(head) };
        // SAFETY: head + mapped_bytes = reserved - tail, still inside it or one past its end.
        let end = unsafe { base.add(mapped_bytes) };
        // The page size divides REGION_ALIGN and mapped_bytes, so both ends are whole pages. A failed trim
        // wastes address space and nothing else.
        sys::unmap(start, head);
        sys::unmap(end, tail);
        let granted = if advise_huge
            && mapped_bytes >= REGION_ALIGN
            && sys::advise_huge(base, mapped_bytes)
        {
            HugePages::Transparent
        } else {
            HugePages::None
        };
        Ok(Region { base, len_bytes, mapped_bytes, granted })
    }

    /// Makes every page present, by one call or by touching each.
    fn prefault(&self) {
        if sys::populate(self.base, self.mapped_bytes).is_ok() {
            return;
        }
        let mut offset = 0;
        while offset < self.mapped_bytes {
            // SAFETY: offset < mapped_bytes, so the byte is inside the mapping [M1].
            let byte = unsafe { self.base.add(offset) };
            // SAFETY: [M1] the byte is writable, and during `map` nobody else knows it. Volatile, so that the
            // store of a zero over a zero is not left out.
            unsafe { byte.write_volatile(0) };
            offset += page_bytes();
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        sys::unmap(self.base, self.mapped_bytes);
    }
}

/// Bytes of a memory page of the operating system: 4 KiB, 16 KiB and 64 KiB all occur.
pub fn page_bytes() -> usize {
    // SAFETY: sysconf only reads a setting.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // 64 KiB is a multiple of every page size in use, should the system not tell.
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(64 << 10)
}

/// The calls that differ between systems. Each takes a range as \[M1\] describes it.
mod sys {
    use std::io;
    use std::ptr::{self, NonNull};

    /// `bytes` of fresh zeroed memory, aligned to a page.
    pub(super) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        map_with(bytes, 0)
    }

    fn map_with(bytes: usize, more_flags: libc::c_int) -> io::Result<NonNull<u8>> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | more_flags;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
    }

    /// Gives back a range that `map` gave, or a part of it in whole pages. Nothing for 0 bytes.
    pub(super) fn unmap(start: NonNull<u8>, bytes: usize) {
        if bytes == 0 {
            return;
        }
        // SAFETY: the callers own the range and hold no reference into it.
        let result = unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
        debug_assert_eq!(result, 0, "unmapping an own range of whole pages");
    }

    /// Reserved 2 MiB pages; `None` when there are not enough.
    #[cfg(target_os = "linux")]
    pub(super) fn map_hugetlb(bytes: usize) -> Option<NonNull<u8>> {
        map_with(bytes, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB).ok()
    }

    #[cfg(target_os = "linux")]
    fn advise(start: NonNull<u8>, bytes: usize, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is an own mapping; the advices used here keep its content.
        match unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks for transparent huge pages; whether the kernel knows them.
    #[cfg(target_os = "linux")]
    pub(super) fn advise_huge(start: NonNull<u8>, bytes: usize) -> bool {
        advise(start, bytes, libc::MADV_HUGEPAGE).is_ok()
    }

    /// Makes all pages present. `InvalidInput` on a kernel before 5.14.
    #[cfg(target_os = "linux")]
    pub(super) fn populate(start: NonNull<u8>, bytes: usize) -> io::Result<()> {
        advise(start, bytes, libc::MADV_POPULATE_WRITE)
    }

    /// Bytes of the range in transparent huge pages. A neighbour that the kernel merged into the same mapping
    /// counts too, up to the length of the range.
    #[cfg(target_os = "linux")]
    pub(super) fn transparent_huge_bytes(start: usize, bytes: usize) -> io::Result<u64> {
        let text = std::fs::read_to_string("/proc/self/smaps")?;
        Ok(super::smaps_huge_bytes(&text, start, bytes))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn map_hugetlb(_bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn advise_huge(_start: NonNull<u8>, _bytes: usize) -> bool {
        false
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn populate(_start: NonNull<u8>, _bytes: usize) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn transparent_huge_bytes(_start: usize, _bytes: usize) -> io::Result<u64> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// Sums `AnonHugePages` of the mappings in the text of `smaps` that overlap the range, each up to its
/// overlap.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn smaps_huge_bytes(text: &str, start: usize, bytes: usize) -> u64 {
    let end = start.saturating_add(bytes);
    let mut overlap = 0;
    let mut sum = 0;
    for line in text.lines() {
        let first = line.split_ascii_whitespace().next().unwrap_or("");
        if let Some((from, to)) = first.split_once('-') {
            if let (Ok(from), Ok(to)) =
                (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                overlap = to.min(end).saturating_sub(from.max(start)) as u64;
            }
        } else if first == "AnonHugePages:" {
            let kib = line
                .split_ascii_whitespace()
                .nth(1)
                .and_then(|kib| kib.parse::<u64>().ok())
                .unwrap_or(0);
            sum += (kib << 10).min(overlap);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn byte(region: &Region, offset: usize) -> *mut u8 {
        assert!(offset < region.len());
        // SAFETY: offset < len <= mapped [M2].
        unsafe { region.ptr().add(offset).as_ptr() }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri unmaps no parts of a mapping")]
    fn regions_are_aligned_zeroed_and_writable_to_the_last_byte() {
        let page = page_bytes();
        for bytes in [1, page - 1, page, page + 1, REGION_ALIGN, REGION_ALIGN + page] {
            for huge_pages in [false, true] {
                let region = Region::map(bytes, RegionOptions { huge_pages, prefault: false })
                    .expect("small mapping");
                assert_eq!(region.ptr().as_ptr() as usize % REGION_ALIGN, 0);
                assert_eq!(region.len(), bytes);
                assert!(region.mapped_bytes() >= bytes);
                for offset in BTreeSet::from([0, bytes / 2, bytes - 1]) {
                    let byte = byte(&region, offset);
                    // SAFETY: inside the region, and this thread alone has it.
                    assert_eq!(unsafe { byte.read() }, 0);
                    // SAFETY: as above.
                    unsafe { byte.write(1) };
                }
                assert!(huge_pages || region.granted() == HugePages::None);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri unmaps no parts of a mapping")]
    fn prefault_keeps_zeroes() {
        let region =
            Region::map(4 * REGION_ALIGN, RegionOptions { huge_pages: true, prefault: true })
                .expect("8 MiB mapping");
        for offset in (0..region.len()).step_by(4096) {
            // SAFETY: inside the region, and this thread alone has it.
            assert_eq!(unsafe { byte(&region, offset).read() }, 0);
        }
        if let Ok(bytes) = region.huge_bytes() {
            assert!(bytes <= region.mapped_bytes() as u64);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri unmaps no parts of a mapping")]
    fn absurd_sizes_are_errors() {
        assert!(Region::map(usize::MAX, RegionOptions::default()).is_err());
        assert!(
            Region::map(isize::MAX as usize, RegionOptions { huge_pages: true, prefault: false })
                .is_err()
        );
        assert!(Region::map(1 << 60, RegionOptions::default()).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri unmaps no parts of a mapping")]
    fn many_regions_come_and_go() {
        for _ in 0..200 {
            let region =
                Region::map(REGION_ALIGN, RegionOptions::default()).expect("2 MiB mapping");
            // SAFETY: inside the region, and this thread alone has it.
            unsafe { byte(&region, 0).write(1) };
        }
    }

    #[test]
    fn smaps_counts_only_the_overlap() {
        let text = "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \nSize: 4096 kB\nAnonHugePages:      4096 kB\n\
                    7f0000800000-7f0000a00000 rw-p 00000000 00:00 0 \nAnonHugePages:      2048 kB\nVmFlags: rd wr\n";
        assert_eq!(smaps_huge_bytes(text, 0x7f00_0000_0000, 4 << 20), 4 << 20);
        assert_eq!(smaps_huge_bytes(text, 0x7f00_0020_0000, 2 << 20), 2 << 20);
        assert_eq!(smaps_huge_bytes(text, 0x7f00_0000_0000, 16 << 20), 6 << 20);
        assert_eq!(smaps_huge_bytes(text, 0x7f00_0100_0000, 1 << 20), 0);
        assert_eq!(smaps_huge_bytes("", 0, 1 << 20), 0);
    }
}
