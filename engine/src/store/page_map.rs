//! The page map: page id -> [`Placement`], the only place that knows where a page lies. In memory as a whole.
//!
//! ```text
//!   page id = map page index * 1024 + entry          on disk: up to 1024 entries of 16 bytes,
//!                                                    cut after the last mapped one and
//!   slots[0]  slots[1]  slots[2] ...                 rounded up to blocks: 1 to 4 blocks
//!      |
//!      +-- entries : Arc<[Placement; 1024]>    shared with the frozen map until one of them changes
//!      +-- live    : Bits   allocated: in use, on disk or not yet
//!      +-- held    : Bits   freed, but not to be given out before the next publish
//!      +-- on_disk : where the durable checkpoint keeps this map page
//! ```
//!
//! | live | held | entry | state of the id | left by |
//! |---|---|---|---|---|
//! | 0 | 0 | unmapped | free | `allocate` |
//! | 1 | 0 | unmapped | allocated, never written | `install`, `free`, `unallocate` |
//! | 1 | 0 | mapped | in use | `install` (same state), `free` |
//! | 0 | 1 | unmapped | held | publish of the checkpoint that follows |
//!
//! - [P1] No other state is reachable. Id 0 is held for ever.
//! - [P2] A slot with a free id is in `with_free`; others may be. So the lowest free id costs O(log slots).
//! - [P3] A slot whose entries of pages that are not provisional differ from `on_disk` is dirty, or its
//!   change is in the frozen map.
//! - [P4] *Provisional* ids are live, and left out of every freeze until adopted. They become so when
//!   allocated, and then no durable and no frozen map names their blocks; or when *condemned*, and then such
//!   a map may name them until a checkpoint that left them out is published. Till then they are in
//!   `condemned`, a subset of `provisional`.
//!
//! Not here: when blocks become free (`blocks`), and which map an image goes to (`state`).

use super::place::{PLACEMENT_BYTES, Placement, seed_map_page};
use crate::id::{BLOCK_BYTES, BlockId, PageId};
use crate::io::AlignedBuf;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Entries of one map page.
pub(super) const ENTRIES: usize = 1024;
/// Blocks of a map page at most.
pub(super) const MAP_PAGE_BLOCKS_MAX: u32 = (ENTRIES * PLACEMENT_BYTES / BLOCK_BYTES) as u32;
/// Map pages of the greatest map: every id of 40 bits.
const SLOTS_MAX: usize = 1 << 30;

/// One bit for each entry of a map page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bits([u64; ENTRIES / 64]);

impl Bits {
    const NONE: Bits = Bits([0; ENTRIES / 64]);

    pub(super) fn get(&self, entry: usize) -> bool {
        self.0[entry / 64] >> (entry % 64) & 1 != 0
    }

    fn set(&mut self, entry: usize, to: bool) {
        let bit = 1 << (entry % 64);
        if to {
            self.0[entry / 64] |= bit;
        } else {
            self.0[entry / 64] &= !bit;
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

/// The entries of one map page, packed as on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entries(Box<[[u64; 2]]>);

impl Entries {
    fn empty() -> Entries {
        Entries(vec![Placement::NONE.pack(); ENTRIES].into())
    }

    pub(super) fn get(&self, entry: usize) -> Placement {
        Placement::unpack(self.0[entry])
    }

    pub(super) fn set(&mut self, entry: usize, placement: Placement) {
        self.0[entry] = placement.pack();
    }

    /// The mapped entries with their index.
    pub(super) fn mapped(&self) -> impl Iterator<Item = (usize, Placement)> + '_ {
        self.0
            .iter()
            .map(|&packed| Placement::unpack(packed))
            .enumerate()
            .filter(|(_, placement)| placement.is_mapped())
    }

    /// The entries without those of the set.
    pub(super) fn without(&self, left_out: &Bits) -> Entries {
        let mut copy = self.clone();
        for entry in (0..ENTRIES).filter(|&entry| left_out.get(entry)) {
            copy.set(entry, Placement::NONE);
        }
        copy
    }

    /// Blocks on disk; 0 if nothing is mapped.
    pub(super) fn blocks(&self) -> u32 {
        let used = self.mapped().last().map_or(0, |(entry, _)| entry + 1);
        (used * PLACEMENT_BYTES).div_ceil(BLOCK_BYTES) as u32
    }

    /// End of the highest block that an entry names; 0 if nothing is mapped.
    pub(super) fn reach(&self) -> u64 {
        self.mapped().map(|(_, placement)| placement.end()).max().unwrap_or(0)
    }

    /// The bytes on disk, into the start of `out`; gives their number.
    pub(super) fn encode(&self, out: &mut [u8]) -> usize {
        let bytes = self.blocks() as usize * BLOCK_BYTES;
        for (&packed, out) in self.0.iter().zip(out[..bytes].chunks_exact_mut(PLACEMENT_BYTES)) {
            Placement::unpack(packed).encode(out);
        }
        bytes
    }

    /// Reads bytes checked by their checksum already; on a fault gives the entry and what is wrong with it.
    pub(super) fn decode(bytes: &[u8], file_blocks: u64) -> Result<Entries, (usize, &'static str)> {
        let mut entries = Entries::empty();
        for (index, bytes) in bytes.chunks_exact(PLACEMENT_BYTES).take(ENTRIES).enumerate() {
            let entry = Placement::decode(bytes, file_blocks).map_err(|what| (index, what))?;
            entries.set(index, entry);
        }
        Ok(entries)
    }
}

/// A map page in memory.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) entries: Arc<Entries>,
    live: Bits,
    held: Bits,
    /// Where the durable checkpoint keeps it.
    pub(super) on_disk: Placement,
    /// End of the highest block that it names there.
    pub(super) on_disk_reach: u64,
}

/// Map page index and entry of a page id.
pub(super) fn place_of(page: PageId) -> (usize, usize) {
    ((page.0 / ENTRIES as u64) as usize, (page.0 % ENTRIES as u64) as usize)
}

/// The current map.
#[derive(Debug)]
pub(super) struct PageMap {
    /// What every slot without entries shares, so that a directory of empty map pages takes little memory.
    empty: Arc<Entries>,
    slots: Vec<Slot>,
    with_free: BTreeSet<usize>,
    provisional: BTreeMap<usize, Bits>,
    condemned: BTreeSet<PageId>,
    pages: u64,
}

impl Default for PageMap {
    fn default() -> PageMap {
        PageMap {
            empty: Arc::new(Entries::empty()),
            slots: Vec::new(),
            with_free: BTreeSet::new(),
            provisional: BTreeMap::new(),
            condemned: BTreeSet::new(),
            pages: 0,
        }
    }
}

impl PageMap {
    /// Appends the map page of the next index, as the durable checkpoint has it.
    pub(super) fn push(&mut self, entries: Option<Entries>, on_disk: Placement) {
        let index = self.slots.len();
        let entries = entries.map_or_else(|| self.empty.clone(), Arc::new);
        let mut live = Bits::NONE;
        for (entry, _) in entries.mapped() {
            live.set(entry, true);
            self.pages += 1;
        }
        let mut held = Bits::NONE;
        held.set(0, index == 0); // [P1]
        self.with_free.insert(index);
        self.slots.push(Slot { on_disk_reach: entries.reach(), entries, live, held, on_disk });
    }

    /// The lowest free id, now live. `None` when all 2^40 are used.
    pub(super) fn allocate(&mut self, provisional: bool) -> Option<PageId> {
        while let Some(&index) = self.with_free.first() {
            let slot = &mut self.slots[index];
            let free = (0..ENTRIES / 64).find_map(|word| {
                let taken = slot.live.0[word] | slot.held.0[word];
                (taken != u64::MAX).then(|| word * 64 + (!taken).trailing_zeros() as usize)
            });
            let Some(entry) = free else {
                self.with_free.remove(&index);
                continue;
            };
            slot.live.set(entry, true);
            let page = PageId((index * ENTRIES + entry) as u64);
            if provisional {
                self.make_provisional(page);
            }
            return Some(page);
        }
        if self.slots.len() >= SLOTS_MAX {
            return None;
        }
        self.push(None, Placement::NONE);
        self.allocate(provisional)
    }

    /// An id that was allocated and never written is free again.
    pub(super) fn unallocate(&mut self, page: PageId) {
        let (index, entry) = place_of(page);
        if let Some(slot) = self.slots.get_mut(index)
            && slot.live.get(entry)
            && !slot.entries.get(entry).is_mapped()
        {
            slot.live.set(entry, false);
            self.with_free.insert(index);
            self.adopt(page);
        }
    }

    /// The page is provisional no longer; gives whether it was.
    pub(super) fn adopt(&mut self, page: PageId) -> bool {
        let (index, entry) = place_of(page);
        let Some(bits) = self.provisional.get_mut(&index) else {
            return false;
        };
        let was = bits.get(entry);
        bits.set(entry, false);
        if bits.is_empty() {
            self.provisional.remove(&index);
        }
        self.condemned.remove(&page);
        was
    }

    fn make_provisional(&mut self, page: PageId) {
        let (index, entry) = place_of(page);
        self.provisional.entry(index).or_insert(Bits::NONE).set(entry, true);
    }

    /// A live page that is not provisional becomes so, and condemned; gives whether it did.
    pub(super) fn condemn(&mut self, page: PageId) -> bool {
        let condemned = self.is_live(page) && !self.is_provisional(page);
        if condemned {
            self.make_provisional(page);
            self.condemned.insert(page);
        }
        condemned
    }

    /// Condemned pages whose blocks no other map names, by `left_out`, are provisional and nothing else
    /// ([P4]).
    pub(super) fn forget_condemned(&mut self, left_out: impl Fn(PageId) -> bool) {
        self.condemned.retain(|&page| !left_out(page));
    }

    /// Whether another map may name the blocks of a provisional page.
    pub(super) fn is_condemned(&self, page: PageId) -> bool {
        self.condemned.contains(&page)
    }

    /// A live id becomes held; gives its entry.
    pub(super) fn free(&mut self, page: PageId) -> Placement {
        let (index, entry) = place_of(page);
        let old = self.set(page, Placement::NONE);
        let slot = &mut self.slots[index];
        slot.live.set(entry, false);
        slot.held.set(entry, true);
        self.adopt(page);
        old
    }

    /// A held id is free.
    pub(super) fn unhold(&mut self, page: PageId) {
        let (index, entry) = place_of(page);
        if let Some(slot) = self.slots.get_mut(index) {
            slot.held.set(entry, false);
            self.with_free.insert(index);
        }
    }

    pub(super) fn get(&self, page: PageId) -> Placement {
        let (index, entry) = place_of(page);
        self.slots.get(index).map_or(Placement::NONE, |slot| slot.entries.get(entry))
    }

    /// Replaces the entry of a live page; gives the old one.
    pub(super) fn set(&mut self, page: PageId, placement: Placement) -> Placement {
        let (index, entry) = place_of(page);
        let entries = &mut self.slots[index].entries;
        let old = entries.get(entry);
        if old != placement {
            Arc::make_mut(entries).set(entry, placement);
        }
        self.pages += u64::from(placement.is_mapped());
        self.pages -= u64::from(old.is_mapped());
        old
    }

    pub(super) fn is_live(&self, page: PageId) -> bool {
        let (index, entry) = place_of(page);
        self.slots.get(index).is_some_and(|slot| slot.live.get(entry))
    }

    pub(super) fn is_provisional(&self, page: PageId) -> bool {
        let (index, entry) = place_of(page);
        let bits = self.provisional.get(&index);
        bits.is_some_and(|bits| bits.get(entry))
    }

    /// The provisional ids, by map page.
    pub(super) fn provisional(&self) -> &BTreeMap<usize, Bits> {
        &self.provisional
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Notes where the durable checkpoint keeps a map page; gives where the one before did.
    pub(super) fn set_on_disk(
        &mut self,
        index: usize,
        on_disk: Placement,
        reach: u64,
    ) -> Placement {
        let slot = &mut self.slots[index];
        slot.on_disk_reach = reach;
        std::mem::replace(&mut slot.on_disk, on_disk)
    }

    /// Pages that have a place.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Bytes of memory, without what a frozen map adds.
    pub(super) fn bytes(&self) -> u64 {
        let slot = size_of::<Slot>() + ENTRIES * PLACEMENT_BYTES;
        (self.slots.len() * slot) as u64
    }
}

/// One map page as bytes on disk, with its block count and checksum filled in but no block yet. No bytes and
/// [`Placement::NONE`] if nothing is mapped.
pub(super) fn encode_map_page(entries: &Entries, index: usize) -> (AlignedBuf, Placement) {
    let mut buf = AlignedBuf::new(entries.blocks() as usize * BLOCK_BYTES);
    if buf.is_empty() {
        return (buf, Placement::NONE);
    }
    entries.encode(&mut buf);
    let placement = Placement {
        block: BlockId(0),
        blocks: entries.blocks(),
        checksum: xxh3_64_with_seed(&buf, seed_map_page(index)),
    };
    (buf, placement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(block: u64) -> Placement {
        Placement { block: BlockId(block), blocks: 1, checksum: block }
    }

    #[test]
    fn first_page_is_the_catalog_and_ids_are_given_out_lowest_first() {
        let mut map = PageMap::default();
        assert_eq!(map.allocate(false), Some(PageId::CATALOG));
        for id in 2..3000 {
            assert_eq!(map.allocate(false), Some(PageId(id)));
        }
        for id in [1500, 70, 2500] {
            map.set(PageId(id), run(40));
            map.free(PageId(id));
        }
        assert_eq!(map.allocate(false), Some(PageId(3000)), "held ids wait");
        map.unhold(PageId(1500));
        map.unhold(PageId(70));
        assert_eq!(map.allocate(false), Some(PageId(70)));
        assert_eq!(map.allocate(false), Some(PageId(1500)));
        assert_eq!(map.allocate(false), Some(PageId(3001)));
        map.unallocate(PageId(3001));
        assert_eq!(map.allocate(false), Some(PageId(3001)));
    }

    #[test]
    fn map_pages_read_back_and_are_cut_after_their_last_entry() {
        let mut entries = Entries::empty();
        assert_eq!((entries.blocks(), entries.reach()), (0, 0));
        for (entry, blocks) in [(3, 1), (255, 1), (256, 2), (1023, MAP_PAGE_BLOCKS_MAX)] {
            entries.set(entry, run(100 + entry as u64));
            assert_eq!(entries.blocks(), blocks);
            let (buf, placement) = encode_map_page(&entries, 0);
            assert_eq!(buf.len(), placement.bytes());
            assert_eq!(Entries::decode(&buf, 5000), Ok(entries.clone()));
        }
        let (buf, _) = encode_map_page(&entries, 0);
        assert_eq!(Entries::decode(&buf, 1000), Err((1023, "run past the end of the file")));
    }

    #[test]
    fn provisional_ends_by_adopting_or_freeing() {
        let mut map = PageMap::default();
        let (a, b) = (map.allocate(true), map.allocate(true));
        let (a, b) = (a.expect("ids left"), b.expect("ids left"));
        assert!(map.is_provisional(a) && map.is_provisional(b));
        assert!(map.adopt(a) && !map.adopt(a));
        map.free(b);
        assert!(!map.is_provisional(b));
        assert!(map.provisional().is_empty());
    }

    #[test]
    fn condemned_ends_by_adopting_freeing_or_a_checkpoint_without_it() {
        let mut map = PageMap::default();
        let [a, b, c] = [false, false, true].map(|as_one| map.allocate(as_one).expect("ids left"));
        assert!(map.condemn(a) && map.condemn(b));
        assert!(
            !map.condemn(a)
                && !map.condemn(c)
                && !map.condemn(PageId(70))
                && !map.condemn(PageId(0))
        );
        assert!([a, b].iter().all(|&page| map.is_provisional(page) && map.is_condemned(page)));
        assert!(!map.is_condemned(c));
        map.forget_condemned(|page| page == a);
        assert!(map.is_provisional(a) && !map.is_condemned(a) && map.is_condemned(b));
        assert!(map.adopt(b) && map.condemn(b));
        map.free(b);
        map.free(a);
        map.free(c);
        assert!(map.provisional().is_empty() && map.condemned.is_empty());
    }
}
