//! Tests of the pool on a simulated disk, with pages that hold one stamp each.

mod ahead;
mod checkpoints;
mod faults;
mod residency;

use super::{FrameX, Pool, PoolOptions};
use crate::error::Result;
use crate::id::{FrameId, PageId, TreeId};
use crate::io::disk::{BackendReport, Read, Write};
use crate::io::sim::CrashMode;
use crate::io::{Disk, SimDisk};
use crate::node::{LeafPayload, Page, bytes_of};
use crate::store::Store;
use latchkv_latch::Version;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE_BYTES: u32 = 4096;
const TREE: TreeId = TreeId(7);
const KEY: &[u8] = b"stamp";
/// Long enough to lie in many words, so that a torn read shows.
const VALUE_BYTES: usize = 480;

/// Ends the process with a message if the test hangs.
struct Watchdog(#[expect(dead_code, reason = "dropping it is the message")] Sender<()>);

fn watchdog(test: &'static str) -> Watchdog {
    let (alive, done) = channel::<()>();
    std::thread::spawn(move || {
        if done.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{test} hangs");
            std::process::abort();
        }
    });
    Watchdog(alive)
}

type Hook = Box<dyn FnOnce() + Send>;

/// A simulated disk on which a test can do something in the middle of a write, and that counts how it is read.
#[derive(Default)]
struct Hooked {
    disk: Option<Arc<SimDisk>>,
    before_write: Mutex<Option<Hook>>,
    /// Reads that came together.
    batches: AtomicU64,
    /// Reads that came alone.
    singles: AtomicU64,
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}

impl Hooked {
    fn disk(&self) -> &SimDisk {
        self.disk.as_deref().expect("made with one")
    }
}

impl Disk for Hooked {
    fn backend(&self) -> BackendReport {
        self.disk().backend()
    }
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.singles.fetch_add(1, Ordering::Relaxed);
        self.disk().read(offset, buf)
    }
    fn read_many(&self, reads: &mut [Read<'_>]) -> Vec<io::Result<()>> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.disk().read_many(reads)
    }
    fn write(&self, writes: &[Write<'_>]) -> io::Result<()> {
        let hook = self.before_write.lock().expect("no hook panics while it is taken").take();
        if let Some(hook) = hook {
            hook();
        }
        self.disk().write(writes)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk().sync()
    }
    fn len_bytes(&self) -> io::Result<u64> {
        self.disk().len_bytes()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk().set_len(bytes)
    }
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.disk().allocate(offset, bytes)
    }
}

struct Bench {
    pool: Arc<Pool>,
    disk: Arc<SimDisk>,
    hooked: Arc<Hooked>,
}

fn options(frames: usize) -> PoolOptions {
    let latches = super::PageHashLatches::PerCell;
    let budget = super::Budget::of_frames(frames, PAGE_BYTES as usize, latches, false);
    PoolOptions {
        cache_bytes: budget.bytes_total() as u64,
        huge_pages: false,
        prefault: false,
        frame_hints: true,
        page_hash_latches: latches,
    }
}

fn pool_on(disk: Arc<dyn Disk>, create: bool, options: &PoolOptions) -> Result<Pool> {
    let path = Path::new("test");
    let store = if create {
        Store::create(disk, path, PAGE_BYTES)?
    } else {
        Store::open(disk, path, false)?
    };
    Pool::new(Arc::new(store), options)
}

fn bench_with(options: &PoolOptions) -> Bench {
    let disk = Arc::new(SimDisk::new(1));
    let hooked = Arc::new(Hooked { disk: Some(disk.clone()), ..Hooked::default() });
    let pool = pool_on(hooked.clone(), true, options).expect("an empty disk takes a store");
    Bench { pool: Arc::new(pool), disk, hooked }
}

fn bench(frames: usize) -> Bench {
    let bench = bench_with(&options(frames));
    // Rounding of the region may leave room for a few more.
    assert!(bench.pool.frame_count() >= frames);
    bench
}

impl Bench {
    /// The database as found after a power cut now.
    fn after_crash(&self, mode: CrashMode) -> Pool {
        let disk = Arc::new(self.disk.crash(5, mode));
        pool_on(disk, false, &options(16)).expect("the newest checkpoint opens")
    }
}

fn checkpoint(pool: &Pool) -> Result<super::CheckpointReport> {
    pool.checkpoint(|| (vec![(TREE, 0)], TreeId(8), 0), |_| Ok(0))
}

fn value(page: PageId, stamp: u64) -> Vec<u8> {
    let word = (page.0 << 40 ^ stamp).to_le_bytes();
    word.iter().copied().cycle().take(VALUE_BYTES).collect()
}

/// The stamp of a value that `value` made for that page; `None` for anything else.
fn stamp_of(page: PageId, bytes: &[u8]) -> Option<u64> {
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let stamp = word ^ page.0 << 40;
    (bytes == value(page, stamp)).then_some(stamp)
}

/// Formats the page and stamps it. The caller holds X and is inside the gate.
fn write_stamp(view: Page<'_>, page: PageId, stamp: u64) {
    view.format(0, page, TREE, &[], None);
    assert!(view.insert_record(0, KEY, 0, LeafPayload::Inline(&value(page, stamp))));
}

/// A new page with that stamp.
fn create(pool: &Pool, stamp: u64) -> Result<PageId> {
    let mut reservation = pool.reserve(1)?;
    let x = reservation.create();
    let page = x.page_id();
    write_stamp(x.page(), page, stamp);
    Ok(page)
}

/// The value bytes of a stamp page, read without a latch; anything at all if the page changes meanwhile.
fn value_bytes(view: Page<'_>) -> Option<Vec<u8>> {
    let found = view.find(KEY);
    let record = found.exact.then(|| view.record(found.at))??;
    let mut words = Vec::new();
    let start = view.copy_payload(record, &mut words);
    bytes_of(&words).get(start..start + record.meta.payload_len()).map(<[u8]>::to_vec)
}

fn reach_any(pool: &Pool, page: PageId, hint: FrameId) -> Result<(FrameId, Version)> {
    match pool.reach_hinted(crate::node::ChildWord::new(page, hint)) {
        Some((frame, at)) => {
            pool.reference(frame);
            Ok((frame, at))
        }
        None => pool.reach(page),
    }
}

/// Reads a stamp optimistically; any validated read must be whole.
fn read_stamp_hinted(pool: &Pool, page: PageId, hint: FrameId) -> Result<(u64, FrameId)> {
    loop {
        let (frame, at) = reach_any(pool, page, hint)?;
        let bytes = value_bytes(pool.page(frame));
        if pool.latch(frame).validate(at) {
            let stamp = bytes.and_then(|bytes| stamp_of(page, &bytes));
            return Ok((stamp.expect("a validated read is whole and of this page"), frame));
        }
    }
}

fn read_stamp(pool: &Pool, page: PageId) -> Result<u64> {
    read_stamp_hinted(pool, page, FrameId::NO_HINT).map(|(stamp, _)| stamp)
}

/// The page under X.
fn latch(pool: &Pool, page: PageId) -> Result<FrameX<'_>> {
    loop {
        let (frame, at) = pool.reach(page)?;
        if let Some(x) = pool.exclusive_at(frame, at) {
            return Ok(x);
        }
        std::thread::yield_now();
    }
}

/// Stamps a page as a writer does.
fn stamp(pool: &Pool, page: PageId, stamp: u64) -> Result<()> {
    let _inside = pool.gate().enter();
    let x = latch(pool, page)?;
    pool.touch(&x, false)?;
    write_stamp(x.page(), page, stamp);
    Ok(())
}
