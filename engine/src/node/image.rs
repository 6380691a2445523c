//! A page on its way to disk and back.
//!
//! An image leaves out the hole between slots and cells and is rounded up to whole blocks, so that a
//! half-full page takes half the room. It holds no frame hints.
//!
//! ```text
//! [ header and slots ][ cells and fences ][ zeros to the end of the block ]
//! ```

use super::{Kind, Page, SLOTS_AT, UPPER_AT};
use crate::id::{BLOCK_BYTES, PageId};

/// What is wrong with an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// Which rule is broken.
    pub(crate) what: &'static str,
    /// What the rule wants.
    pub(crate) expected: String,
    /// What is there.
    pub(crate) got: String,
}

impl Fault {
    pub(super) fn new(what: &'static str, expected: impl ToString, got: impl ToString) -> Fault {
        Fault { what, expected: expected.to_string(), got: got.to_string() }
    }
}

/// Writes the image of `page` to the front of `out`, as little-endian words, and gives its length in
/// bytes, a multiple of [`BLOCK_BYTES`]. The caller holds S or X, so the page is well formed; `out` is at
/// least as long as the page.
pub(crate) fn encode(page: Page<'_>, out: &mut [u64]) -> usize {
    let front = SLOTS_AT + page.count();
    let end = page.len_words();
    let data = page.data_off().clamp(front, end);
    for (at, word) in out[..front].iter_mut().enumerate() {
        *word = page.load(at).to_le();
    }
    for (word, at) in out[front..front + end - data].iter_mut().zip(data..end) {
        *word = page.load(at).to_le();
    }
    if page.kind() == Some(Kind::Inner) {
        out[UPPER_AT] = (page.load(UPPER_AT) & PageId::MAX.0).to_le();
        for slot in 0..page.count() {
            let at = page.slot(slot).offset();
            if let Some(child) = (at + front).checked_sub(data).and_then(|at| out.get_mut(at)) {
                *child = (u64::from_le(*child) & PageId::MAX.0).to_le();
            }
        }
    }
    let used = front + end - data;
    let bytes = (used * 8).next_multiple_of(BLOCK_BYTES);
    out[used..bytes / 8].fill(0);
    bytes
}

/// Fills `page` from `image` (little-endian words, as [`encode`] wrote them) and lets it in only if it is
/// well formed and says that it is page `expect`. The caller holds X; after a fault the page's content is
/// anything.
pub(crate) fn decode(image: &[u64], page: Page<'_>, expect: PageId) -> Result<(), Fault> {
    let end = page.len_words();
    let word = |at: usize| image.get(at).map_or(0, |word| u64::from_le(*word));
    let count = usize::from((word(0) >> 32) as u16);
    let data = usize::from(word(4) as u16);
    let front = SLOTS_AT + count;
    if front > data || data > end {
        return Err(Fault::new(
            "slots and cells overlap",
            format!("{front} <= cells <= {end}"),
            data,
        ));
    }
    if front + end - data > image.len() || image.len() > end {
        let expected = (front + end - data) * 8;
        return Err(Fault::new(
            "image length",
            format!("at least {expected} bytes"),
            image.len() * 8,
        ));
    }
    for at in 0..front {
        page.store(at, word(at));
    }
    for at in data..end {
        page.store(at, word(front + at - data));
    }
    page.verify(expect)
}
