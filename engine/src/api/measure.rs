//! For measurement only, behind the feature `measure`: no part of the API, and free to change or go.

use super::db::Db;
use super::tree::Tree;
use crate::error::Result;

impl Db {
    /// Look-ups of the page hash that met somebody else at their latch, as the hash counts them.
    #[doc(hidden)]
    pub fn page_hash_crowded(&self) -> u64 {
        self.shared().pool.hash_crowded()
    }
}

impl Tree {
    /// A point read whose descent takes frame hints for pointers. With `VERSIONS` it begins and validates the
    /// latches of the frames, with `IDENTS` as well it compares their idents. The tree must be resident,
    /// hinted and at rest, or the answer is wrong.
    ///
    /// # Errors
    /// Those of [`len`](Tree::len).
    #[doc(hidden)]
    #[inline]
    pub fn get_trusting<const VERSIONS: bool, const IDENTS: bool, R>(
        &self,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        Ok(self.reading()?.get_trusting::<VERSIONS, IDENTS, R>(key, f))
    }
}
