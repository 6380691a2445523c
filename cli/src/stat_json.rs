//! What `latchkv stat --json` prints: one object, the fields of [`Stats`] under their own names.
//!
//! Fields may be added; those that are there keep name, unit and meaning.

use latchkv::Stats;
use serde_json::{Map, Value, json};

/// Everything that `latchkv stat` knows. `trees` are names and numbers of records.
pub(crate) fn object(stats: &Stats, trees: &[(String, u64)]) -> Value {
    let Stats { page_bytes, backend, pool, store, .. } = stats;
    let trees: Map<String, Value> =
        trees.iter().map(|(name, records)| (name.clone(), json!(records))).collect();
    json!({
        "page_bytes": page_bytes,
        "trees": trees,
        "backend": {
            "name": backend.name,
            "direct": backend.direct,
            "note": backend.note,
        },
        "store": {
            "file_bytes": store.file_bytes,
            "used_blocks": store.used_blocks,
            "free_blocks": store.free_blocks,
            "pending_blocks": store.pending_blocks,
            "pages": store.pages,
            "map_bytes": store.map_bytes,
            "sequence": store.sequence,
        },
        "pool": {
            "total_bytes": pool.total_bytes,
            "frames": pool.frames,
            "frames_free": pool.frames_free,
            "frames_dirty": pool.frames_dirty,
            "huge_pages": format!("{:?}", pool.huge_pages),
            "huge_bytes": pool.huge_bytes,
            "loads": pool.loads,
            "evictions": pool.evictions,
            "hash_hits": pool.hash_hits,
        },
    })
}
