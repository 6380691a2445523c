//! Records in memory, to be written in order of tree and key.
//!
//! ```text
//! bytes    key value key value ...        in order of arrival
//! records  { tree, at, key, value }       offsets into bytes; sorted by [`Run::sort`]
//! ```
//!
//! Of records with the same key the last that arrived counts, as if each had been put by itself.

/// Records of some trees, each tree named by an index that the user of this type gives.
#[derive(Debug, Default)]
pub(super) struct Run {
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// Records that arrived, those of equal keys among them.
    arrived: u64,
}

/// Memory that a record is counted with beside its bytes. Not what it takes by chance: a load that goes on after an
/// interruption must cut the input where the program that began it did.
const RECORD_COST_BYTES: usize = 32;
const _: () = assert!(size_of::<Record>() <= RECORD_COST_BYTES);

#[derive(Clone, Copy, Debug)]
struct Record {
    at: usize,
    key_bytes: u32,
    value_bytes: u32,
    tree: u32,
}

impl Record {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at..][..self.key_bytes as usize]
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at + self.key_bytes as usize..][..self.value_bytes as usize]
    }
}

impl Run {
    /// Adds a record. Key and value have at most 4 GiB each; callers check against far lower limits.
    pub(super) fn push(&mut self, tree: u32, key: &[u8], value: &[u8]) {
        self.arrived += 1;
        let small = "lengths were checked against the limits of the database";
        self.records.push(Record {
            at: self.bytes.len(),
            key_bytes: key.len().try_into().expect(small),
            value_bytes: value.len().try_into().expect(small),
            tree,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    /// Memory that the records take, in bytes; the same for the same records, whatever the program and machine.
    /// To be asked before they are sorted.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.bytes.len() + self.records.len() * RECORD_COST_BYTES) as u64
    }

    /// Number of records that arrived since the run was made or cleared.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether there are no records.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Forgets the records and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.arrived = 0;
    }

    /// Orders by tree and key; of equal keys only the last that arrived stays.
    pub(super) fn sort(&mut self) {
        let bytes = &self.bytes;
        let order = |a: &Record, b: &Record| {
            // Offsets grow with arrival, except among records without any bytes, which are all equal.
            let keys = || a.key(bytes).cmp(b.key(bytes)).then(a.at.cmp(&b.at));
            a.tree.cmp(&b.tree).then_with(keys)
        };
        if !self.records.is_sorted_by(|a, b| order(a, b).is_le()) {
            // Stable, since an empty value under an empty key does not move the offset.
            self.records.sort_by(order);
        }
        let mut kept = 0;
        for index in 0..self.records.len() {
            let record = self.records[index];
            let same = kept > 0 && {
                let before = self.records[kept - 1];
                before.tree == record.tree && before.key(bytes) == record.key(bytes)
            };
            if same {
                self.records[kept - 1] = record;
            } else {
                self.records[kept] = record;
                kept += 1;
            }
        }
        self.records.truncate(kept);
    }

    /// Trees with their records, each tree once if the run is sorted.
    pub(super) fn trees(&self) -> impl Iterator<Item = (u32, Records<'_>)> {
        let of_tree = self.records.chunk_by(|a, b| a.tree == b.tree);
        of_tree.map(|records| (records[0].tree, Records { bytes: &self.bytes, records }))
    }
}

/// Records of one tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    records: &'a [Record],
}

impl<'a> Records<'a> {
    /// Their number.
    pub(super) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    /// The first key.
    pub(super) fn first_key(&self) -> Option<&'a [u8]> {
        self.records.first().map(|record| record.key(self.bytes))
    }

    /// The last key.
    pub(super) fn last_key(&self) -> Option<&'a [u8]> {
        self.records.last().map(|record| record.key(self.bytes))
    }

    /// All but the first `count`.
    pub(super) fn skip(&self, count: u64) -> Records<'a> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Records { bytes: self.bytes, records: self.records.get(count..).unwrap_or(&[]) }
    }

    /// Keys and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        self.records.iter().map(move |record| (record.key(bytes), record.value(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn sorted(run: &Run) -> Vec<(u32, Vec<u8>, Vec<u8>)> {
        let of = |(tree, records): (u32, Records<'_>)| {
            records.iter().map(|(k, v)| (tree, k.to_vec(), v.to_vec())).collect::<Vec<_>>()
        };
        run.trees().flat_map(of).collect()
    }

    #[test]
    fn the_last_of_equal_keys_stays_as_if_each_had_been_put() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..50 {
            let mut run = Run::default();
            let mut model = BTreeMap::new();
            for number in 0..200u32 {
                let tree = random.u32(..3);
                let key = vec![b'k'; random.usize(..20)];
                let value = if random.bool() { Vec::new() } else { number.to_le_bytes().to_vec() };
                run.push(tree, &key, &value);
                model.insert((tree, key), value);
            }
            run.sort();
            assert_eq!(run.arrived(), 200);
            let want: Vec<_> = model.into_iter().map(|((tree, k), v)| (tree, k, v)).collect();
            assert_eq!(sorted(&run), want);
        }
    }

    #[test]
    fn a_cleared_run_is_empty_and_can_be_filled_again() {
        let mut run = Run::default();
        run.push(0, b"a", b"1");
        assert!(run.memory_bytes() > 2 && !run.is_empty());
        run.clear();
        assert!(run.is_empty() && run.memory_bytes() == 0 && run.arrived() == 0);
        run.push(1, b"", b"");
        run.sort();
        assert_eq!(sorted(&run), [(1, vec![], vec![])]);
    }
}
