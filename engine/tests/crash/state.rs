//! What a database holds, with a sum over all of it that tells states apart and follows each change, so that the
//! states after thousands of commits can be remembered.

use crate::common::{Model, records};
use latchkv::{Db, Error};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128_with_seed};

/// All trees by name.
pub(crate) type Trees = BTreeMap<String, Model>;

/// Trees and their sum: of each record and of each tree, in any order.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) trees: Trees,
    pub(crate) sum: u128,
}

/// A change of one record, or of a tree as a whole; none = gone.
pub(crate) enum Edit {
    Record { tree: String, key: Vec<u8>, value: Option<Vec<u8>> },
    Tree { tree: String, records: Option<Model> },
}

impl Edit {
    pub(crate) fn put(tree: &str, key: &[u8], value: &[u8]) -> Edit {
        Edit::Record { tree: tree.to_owned(), key: key.to_vec(), value: Some(value.to_vec()) }
    }

    pub(crate) fn delete(tree: &str, key: &[u8]) -> Edit {
        Edit::Record { tree: tree.to_owned(), key: key.to_vec(), value: None }
    }

    pub(crate) fn tree(tree: &str, records: Option<Model>) -> Edit {
        Edit::Tree { tree: tree.to_owned(), records }
    }
}

fn sum_of_record(tree: &str, key: &[u8], value: &[u8]) -> u128 {
    xxh3_128_with_seed(value, xxh3_64_with_seed(key, xxh3_64(tree.as_bytes())))
}

fn sum_of_tree(tree: &str, records: &Model) -> u128 {
    let itself = xxh3_128_with_seed(tree.as_bytes(), 1);
    let each = records.iter().map(|(key, value)| sum_of_record(tree, key, value));
    each.fold(itself, u128::wrapping_add)
}

impl State {
    pub(crate) fn of(trees: Trees) -> State {
        let each = trees.iter().map(|(name, records)| sum_of_tree(name, records));
        let sum = each.fold(0, u128::wrapping_add);
        State { trees, sum }
    }

    /// Everything a database holds; a tree that is empty is there nevertheless.
    pub(crate) fn read(db: &Db) -> Result<State, Error> {
        let names = db.trees()?;
        let trees = names.into_iter().map(|name| {
            let tree = db.open_tree(&name)?.expect("named");
            let model: Model = records(&tree)?.into_iter().collect();
            assert_eq!(tree.len()?, model.len() as u64, "length of {name:?}");
            Ok((name, model))
        });
        Ok(State::of(trees.collect::<Result<Trees, Error>>()?))
    }

    /// Makes a change; gives what takes it back.
    pub(crate) fn apply(&mut self, edit: Edit) -> Edit {
        match edit {
            Edit::Record { tree, key, value } => {
                let model = self.trees.get_mut(&tree).expect("changes are of trees that are there");
                if let Some(value) = &value {
                    self.sum = self.sum.wrapping_add(sum_of_record(&tree, &key, value));
                }
                let old = match value {
                    Some(value) => model.insert(key.clone(), value),
                    None => model.remove(&key),
                };
                if let Some(old) = &old {
                    self.sum = self.sum.wrapping_sub(sum_of_record(&tree, &key, old));
                }
                Edit::Record { tree, key, value: old }
            }
            Edit::Tree { tree, records } => {
                if let Some(records) = &records {
                    self.sum = self.sum.wrapping_add(sum_of_tree(&tree, records));
                }
                let old = match records {
                    Some(records) => self.trees.insert(tree.clone(), records),
                    None => self.trees.remove(&tree),
                };
                if let Some(old) = &old {
                    self.sum = self.sum.wrapping_sub(sum_of_tree(&tree, old));
                }
                Edit::Tree { tree, records: old }
            }
        }
    }

    /// How many records each tree has, for messages.
    pub(crate) fn sizes(&self) -> Vec<(&str, usize)> {
        self.trees.iter().map(|(name, model)| (name.as_str(), model.len())).collect()
    }
}
