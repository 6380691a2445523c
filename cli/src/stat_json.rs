//! Statistics as one JSON object.

use crate::exit::Outcome;
use latchkv::{Db, Stats};
use serde_json::{Value, json};

/// Everything that `latchkv stat` knows.
pub(crate) fn object(_db: &Db, stats: &Stats) -> Outcome<Value> {
    Ok(json!({ "file_bytes": stats.file_bytes }))
}
