//! Every mutant has a model that must notice it.

use latchkv_latch::primitives::Mutant;

const MODELS: [&str; 11] = [
    include_str!("clean_and_downgrade.rs"),
    include_str!("commit.rs"),
    include_str!("exclusion.rs"),
    include_str!("gate.rs"),
    include_str!("log_ring.rs"),
    include_str!("metadata.rs"),
    include_str!("page_hash.rs"),
    include_str!("residency.rs"),
    include_str!("seqlock.rs"),
    include_str!("snapshots.rs"),
    include_str!("upgrade.rs"),
];

#[test]
fn every_mutant_is_run_by_some_model() {
    for mutant in Mutant::ALL {
        let name = format!("{mutant:?}");
        let words =
            |text: &&str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
        assert!(MODELS.iter().any(words), "no model runs {name}");
    }
}
