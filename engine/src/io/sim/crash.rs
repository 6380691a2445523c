//! What a power cut leaves of one disk: [`Snapshot::crash`].
//!
//! ```text
//!   durable image          what the last sync made safe
//!   + pending              writes since then, oldest first, none of them promised
//!   + lengths              every length the file had since then
//!
//!   sector 9:   durable -> v1 -> v2 -> v3       v3 kept | durable: lost | v1, v2: reordered | v3 over older: torn
//! ```
//!
//! [`CrashMode::Random`] draws a style first, so that both nearly whole and nearly empty outcomes are common:
//! the share of what is kept, whether whole writes or single sectors share a fate, and whether sectors tear.
//! Then it draws each fate. The length is drawn apart from the data, as file systems keep it: data past it
//! are gone, and a length without data shows zeros.

use super::SECTOR_BYTES;
use super::image::Image;
use super::rng::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A change that no sync has made safe.
#[derive(Debug)]
pub(super) enum Pending {
    /// Whole sectors.
    Write {
        /// A multiple of [`SECTOR_BYTES`].
        offset: u64,
        /// A multiple of [`SECTOR_BYTES`] long.
        bytes: Box<[u8]>,
    },
    /// The file was cut here, so what lay behind is zero, should it grow again.
    Cut {
        /// Byte offset.
        at: u64,
    },
}

/// What becomes of the unsynced changes in a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashMode {
    /// All of them survive: what is found when only the process was killed, and the machine went on.
    KeepAll,
    /// None of them survives.
    LoseAll,
    /// Each is kept, lost, torn or overtaken by an older one, as the seed says.
    Random,
}

/// The state of a [`SimDisk`](super::SimDisk) at one moment. Cheap to copy.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) op: u64,
    pub(super) durable: Image,
    pub(super) pending: Vec<Arc<Pending>>,
    /// Lengths since the last sync, in order; the last is that of now.
    pub(super) lengths: Vec<u64>,
}

impl Snapshot {
    /// How many calls of any kind had been made.
    pub fn op(&self) -> u64 {
        self.op
    }

    /// How many changes no sync had made safe.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// The disk found after a power cut at this moment: no faults planned, all of it durable. The same seed
    /// and mode give the same disk.
    pub fn crash(&self, seed: u64, mode: CrashMode) -> super::SimDisk {
        let mut rng = Rng::new(seed);
        let image = self.image_after(&mut rng, mode);
        super::SimDisk::with_image(rng.next(), image)
    }

    /// The bytes found after a power cut at this moment.
    pub(super) fn image_after(&self, rng: &mut Rng, mode: CrashMode) -> Image {
        match mode {
            CrashMode::LoseAll => self.durable.clone(),
            CrashMode::KeepAll => {
                let mut image = self.durable.clone();
                for pending in &self.pending {
                    apply(&mut image, pending);
                }
                image.set_len(self.lengths.last().copied().unwrap_or(image.len_bytes()));
                image
            }
            CrashMode::Random => self.drawn_image(rng),
        }
    }

    fn drawn_image(&self, rng: &mut Rng) -> Image {
        const SHARES: [usize; 7] = [0, 1, 4, 8, 12, 15, 16];
        let kept_share = SHARES[rng.below(SHARES.len())];
        let by_sector = rng.chance(8);
        let torn_share = if rng.chance(8) { 0 } else { 4 };
        let kept: Vec<bool> = self.pending.iter().map(|_| rng.chance(kept_share)).collect();

        let mut image = self.durable.clone();
        // The length grows with the data here and is drawn afterwards.
        let reach = self.lengths.iter().copied().max().unwrap_or(0).max(image.len_bytes());
        image.set_len(reach);
        for (sector, versions) in self.versions(reach) {
            let chosen = if by_sector {
                match (rng.chance(kept_share), rng.chance(12)) {
                    (true, true) => versions.last(),
                    (true, false) => versions.get(rng.below(versions.len())),
                    (false, _) => None,
                }
            } else {
                versions.iter().rfind(|(number, _)| kept[*number])
            };
            let Some((_, bytes)) = chosen else { continue };
            let range = if rng.chance(torn_share) {
                let cut = SECTOR_BYTES / 2;
                if rng.chance(8) { 0..cut } else { cut..SECTOR_BYTES }
            } else {
                0..SECTOR_BYTES
            };
            image.write(sector * SECTOR_BYTES as u64 + range.start as u64, &bytes[range]);
        }
        let len_bytes = match rng.below(2 * (self.lengths.len() + 1)) {
            0 => self.durable.len_bytes(),
            index => match self.lengths.get(index - 1) {
                Some(len_bytes) => *len_bytes,
                None => self.lengths.last().copied().unwrap_or(self.durable.len_bytes()),
            },
        };
        image.set_len(len_bytes);
        image
    }

    /// The contents that pending changes gave to each sector, oldest first, with the number of the change.
    fn versions(&self, reach: u64) -> BTreeMap<u64, Vec<(usize, [u8; SECTOR_BYTES])>> {
        let mut versions: BTreeMap<u64, Vec<(usize, [u8; SECTOR_BYTES])>> = BTreeMap::new();
        for (number, pending) in self.pending.iter().enumerate() {
            match &**pending {
                Pending::Write { offset, bytes } => {
                    let first = offset / SECTOR_BYTES as u64;
                    for (sector, bytes) in (first..).zip(bytes.as_chunks::<SECTOR_BYTES>().0) {
                        versions.entry(sector).or_default().push((number, *bytes));
                    }
                }
                Pending::Cut { at } => {
                    // Only what is there can become zero: written since, or durable.
                    let first = at.div_ceil(SECTOR_BYTES as u64);
                    let durable_end =
                        self.durable.len_bytes().min(reach).div_ceil(SECTOR_BYTES as u64);
                    for sector in first..durable_end {
                        versions.entry(sector).or_default();
                    }
                    for versions in versions.range_mut(first..).map(|(_, versions)| versions) {
                        versions.push((number, [0; SECTOR_BYTES]));
                    }
                }
            }
        }
        versions
    }
}

/// Lets a pending change take effect; the length is the caller's.
pub(super) fn apply(image: &mut Image, pending: &Pending) {
    match pending {
        Pending::Write { offset, bytes } => image.write(*offset, bytes),
        Pending::Cut { at } => image.zero_tail(*at),
    }
}
