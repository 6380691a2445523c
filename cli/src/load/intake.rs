//! One pass over the input: what is bad, what is kept, what is written.
//!
//! | mode | in which pass | values |
//! |---|---|---|
//! | `Gather` | first, while everything fits into the sort memory | kept in one run |
//! | `Check` | first, once it no longer fits | looked at and forgotten |
//! | `Write` | second | kept until the sort memory is full, then written in order |
//!
//! The first pass writes nothing. It ends either with everything in one run, so that no second pass is
//! needed, or with the knowledge that the second will meet nothing bad (unless the input changes). It also
//! takes the fingerprint of the input (see [`super::resume`]). The second passes over what an earlier load has
//! written.

use super::restore::{AccountRecord, OfAccounts};
use super::resume::Fingerprint;
use super::run::Run;
use crate::access::is_system;
use crate::exit::{Failure, Outcome};
use crate::input::{Place, Sink, Skipped, Value};
use crate::interrupt::Interrupts;
use crate::progress::Progress;
use latchkv::Limits;
use std::collections::BTreeMap;
use std::fmt;

/// So many bad records are shown with `--keep-going`; all are counted.
pub(super) const BAD_SHOWN_MAX: usize = 10;

/// What holds for all passes of a load.
#[derive(Debug)]
pub(super) struct Rules {
    /// Greatest key, in bytes.
    pub(super) key_bytes_max: u64,
    /// Greatest value, in bytes.
    pub(super) value_bytes_max: u64,
    /// Leave bad records out instead of failing.
    pub(super) keep_going: bool,
    /// Memory for sorting, in bytes.
    pub(super) sort_bytes_max: u64,
    /// Tree given on the command line.
    pub(super) tree: Option<String>,
    /// Tree where neither the command line nor the input names one.
    pub(super) tree_default: String,
    /// What becomes of accounts.
    pub(super) accounts: OfAccounts,
    /// Name of the input, for messages.
    pub(super) input: String,
    /// Looked at before each record.
    pub(super) interrupts: Interrupts,
}

impl Rules {
    /// Takes the limits of the database.
    pub(super) fn set_limits(&mut self, limits: &Limits) {
        self.key_bytes_max = limits.key_bytes_max as u64;
        self.value_bytes_max = limits.value_bytes_max as u64;
    }
}

/// What a pass has met.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Records taken.
    pub(super) records: u64,
    /// Bytes of their keys and values.
    pub(super) bytes: u64,
    /// Bad records.
    pub(super) bad: u64,
    /// The first of them, as text.
    pub(super) bad_shown: Vec<String>,
    /// Things left out by design, with their number.
    pub(super) skipped: BTreeMap<Skipped, u64>,
}

/// Takes the pieces of a second pass.
pub(super) trait PieceWriter: fmt::Debug {
    /// Writes a sorted run that is a piece of the input; its trees are indices into `names`.
    fn write_piece(&mut self, names: &[String], run: &Run) -> Outcome;
}

/// What a pass does with records.
#[derive(Debug)]
pub(super) enum Mode<'w> {
    /// Keep all.
    Gather(Run),
    /// Keep none.
    Check,
    /// Keep some and write them.
    Write {
        /// Not yet written.
        run: Run,
        /// Writes.
        writer: &'w mut dyn PieceWriter,
        /// Records still to be passed over.
        pass_over: u64,
    },
}

/// A pass.
#[derive(Debug)]
pub(super) struct Intake<'w> {
    /// What becomes of records.
    pub(super) mode: Mode<'w>,
    /// What was met.
    pub(super) tally: Tally,
    /// Names of the trees, in order of appearance.
    pub(super) trees: Vec<String>,
    /// What makes this input known again; of a first pass.
    pub(super) fingerprint: Fingerprint,
    /// Records of accounts that are to be restored; of a first pass.
    pub(super) accounts: Vec<AccountRecord>,
    rules: &'w Rules,
    progress: Progress,
    tree: u32,
    sections: u64,
    /// The tree of the system that the records that follow are of.
    system_tree: Option<String>,
}

impl<'w> Intake<'w> {
    /// Starts a pass.
    pub(super) fn new(rules: &'w Rules, mode: Mode<'w>, progress: Progress) -> Intake<'w> {
        let mut intake = Intake {
            mode,
            tally: Tally::default(),
            trees: Vec::new(),
            fingerprint: Fingerprint::default(),
            accounts: Vec::new(),
            rules,
            progress,
            tree: 0,
            sections: 0,
            system_tree: None,
        };
        if let Some(tree) = &rules.tree {
            intake.trees.push(tree.clone());
            intake.fingerprint.tree(tree);
        }
        intake
    }

    /// Writes what is left. Does nothing in a pass that does not write.
    pub(super) fn finish(&mut self) -> Outcome {
        if let Mode::Write { run, writer, .. } = &mut self.mode
            && !run.is_empty()
        {
            run.sort();
            writer.write_piece(&self.trees, run)?;
            run.clear();
        }
        Ok(())
    }

    fn keep(&mut self, place: Place<'_>, key: &[u8], value: Value<'_>) -> Outcome {
        if self.trees.is_empty() {
            self.trees.push(self.rules.tree_default.clone());
            self.fingerprint.tree(&self.rules.tree_default);
        }
        match &mut self.mode {
            Mode::Write { pass_over, .. } if *pass_over > 0 => {
                *pass_over -= 1;
                return Ok(());
            }
            Mode::Write { .. } => {}
            Mode::Gather(_) | Mode::Check => self.fingerprint.record(place, key, value),
        }
        let Value::Bytes(value) = value else {
            return Ok(());
        };
        let full = match &mut self.mode {
            Mode::Gather(run) | Mode::Write { run, .. } => {
                run.push(self.tree, key, value);
                run.memory_bytes() > self.rules.sort_bytes_max
            }
            Mode::Check => false,
        };
        if full {
            match self.mode {
                Mode::Gather(_) => self.mode = Mode::Check,
                _ => self.finish()?,
            }
        }
        Ok(())
    }
}

impl Sink for Intake<'_> {
    fn tree(&mut self, name: Option<&str>) -> Outcome {
        self.sections += 1;
        if self.rules.tree.is_some() {
            if self.sections > 1 {
                let input = &self.rules.input;
                return Err(Failure::Usage(format!(
                    "{input} holds several databases: leave --tree out to load each under its own name"
                )));
            }
            return Ok(());
        }
        let name = name.unwrap_or(&self.rules.tree_default);
        super::not_a_reserved_name(name)?;
        self.system_tree = is_system(name).then(|| name.to_owned());
        if self.system_tree.is_some() {
            return match self.rules.accounts {
                OfAccounts::Restore | OfAccounts::LeaveOut => Ok(()),
                OfAccounts::Refuse => Err(Failure::Usage(format!(
                    "{} holds accounts (tree {name:?}), which the owner of the files restores: leave --user out, or give \
                     --without-accounts to load all the rest",
                    self.rules.input
                ))),
            };
        }
        let known = self.trees.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.trees.push(name.to_string());
            self.trees.len() - 1
        });
        self.tree = u32::try_from(index).expect("a name takes more than a byte of the input");
        self.fingerprint.tree(&self.trees[index]);
        Ok(())
    }

    fn record(&mut self, place: Place<'_>, key: &[u8], value: Value<'_>) -> Outcome {
        self.rules.interrupts.check()?;
        if let Some(tree) = &self.system_tree {
            match (&self.mode, value) {
                _ if self.rules.accounts == OfAccounts::LeaveOut => self.skipped(Skipped::Account),
                (Mode::Gather(_) | Mode::Check, Value::Bytes(value)) => {
                    self.accounts.push((tree.clone(), key.to_vec(), value.to_vec()));
                }
                // The first pass has them.
                _ => {}
            }
            return Ok(());
        }
        let key_bytes = key.len() as u64;
        let value_bytes = match value {
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::Unread(bytes) => bytes,
        };
        let (key_bytes_max, value_bytes_max) =
            (self.rules.key_bytes_max, self.rules.value_bytes_max);
        if key_bytes > key_bytes_max {
            return self.bad(
                place,
                format!("key of {key_bytes} bytes is over the limit of {key_bytes_max} (a greater page size allows more)"),
            );
        }
        if value_bytes > value_bytes_max {
            let why =
                format!("value of {value_bytes} bytes is over the limit of {value_bytes_max}");
            return self.bad(place, why);
        }
        self.tally.records += 1;
        self.tally.bytes += key_bytes + value_bytes;
        self.keep(place, key, value)
    }

    fn bad(&mut self, place: Place<'_>, why: String) -> Outcome {
        let message = match place {
            Place::Line(_) => format!("{}, {place}: {why}", self.rules.input),
            Place::Path(_) => format!("{place}: {why}"),
        };
        if !self.rules.keep_going {
            return Err(Failure::Error(message));
        }
        self.tally.bad += 1;
        if self.tally.bad_shown.len() < BAD_SHOWN_MAX {
            self.tally.bad_shown.push(message);
        }
        Ok(())
    }

    fn skipped(&mut self, what: Skipped) {
        *self.tally.skipped.entry(what).or_default() += 1;
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.progress.add(bytes);
    }

    fn wants_values(&self) -> bool {
        match self.mode {
            Mode::Gather(_) => true,
            Mode::Check => false,
            Mode::Write { pass_over, .. } => pass_over == 0,
        }
    }

    fn value_bytes_max(&self) -> u64 {
        self.rules.value_bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Unit;

    fn rules(keep_going: bool, sort_bytes_max: u64) -> Rules {
        Rules {
            key_bytes_max: 4,
            value_bytes_max: 8,
            keep_going,
            sort_bytes_max,
            tree: None,
            tree_default: "main".into(),
            accounts: OfAccounts::Restore,
            input: "in.tsv".into(),
            interrupts: Interrupts::default(),
        }
    }

    fn intake(rules: &Rules) -> Intake<'_> {
        let progress = Progress::start(true, "test", Unit::Bytes, None);
        Intake::new(rules, Mode::Gather(Run::default()), progress)
    }

    #[test]
    fn a_first_pass_that_outgrows_the_sort_memory_only_checks() {
        let rules = rules(false, 100);
        let mut intake = intake(&rules);
        for line in 0..20 {
            intake.record(Place::Line(line), b"k", Value::Bytes(b"v")).expect("good");
        }
        assert!(matches!(intake.mode, Mode::Check) && !intake.wants_values());
        assert_eq!((intake.tally.records, intake.tally.bytes), (20, 40));
        intake.record(Place::Line(21), b"k", Value::Bytes(&[0; 9])).expect_err("still checks");
    }

    #[test]
    fn a_bad_record_fails_with_its_place_or_is_counted() {
        let strict = rules(false, 1 << 20);
        let failure = intake(&strict).record(Place::Line(3), b"12345", Value::Bytes(b""));
        let failure = failure.expect_err("the key is too large");
        assert_eq!(failure.code(), 3);
        assert!(failure.to_string().starts_with("in.tsv, line 3: key of 5 bytes"), "{failure}");

        let lenient = rules(true, 1 << 20);
        let mut intake = intake(&lenient);
        for line in 0..12 {
            intake.record(Place::Line(line), b"", Value::Unread(9)).expect("goes on");
        }
        assert_eq!(intake.tally.bad, 12);
        assert_eq!(intake.tally.bad_shown.len(), BAD_SHOWN_MAX);
        assert_eq!(intake.tally.records, 0);
    }

    #[test]
    fn sections_of_the_same_name_are_one_tree_and_a_given_tree_allows_one_section() {
        let mut rules = rules(false, 1 << 20);
        let mut many = intake(&rules);
        for name in [Some("a"), None, Some("a"), Some("main")] {
            many.tree(name).expect("any number");
        }
        assert_eq!(many.trees, ["a", "main"]);
        rules.tree = Some("t".into());
        let mut one = intake(&rules);
        one.tree(Some("a")).expect("one section");
        assert_eq!(one.tree(Some("b")).expect_err("two sections").code(), 2);
        assert_eq!(one.trees, ["t"]);
    }

    #[test]
    fn records_of_accounts_are_kept_apart_left_out_or_refused() {
        let pass = |rules: &Rules| {
            let mut intake = intake(rules);
            for (name, key) in [("a", "1"), ("latchkv/accounts", "longer than keys"), ("b", "2")] {
                intake.tree(Some(name))?;
                intake.record(Place::Line(1), key.as_bytes(), Value::Bytes(b"v"))?;
            }
            assert_eq!(intake.trees, ["a", "b"]);
            assert_eq!(intake.tally.records, 2);
            Ok((intake.accounts, intake.tally.skipped.get(&Skipped::Account).copied()))
        };
        let mut rules = rules(false, 1 << 20);
        let record = ("latchkv/accounts".into(), b"longer than keys".to_vec(), b"v".to_vec());
        assert_eq!(pass(&rules).expect("kept"), (vec![record], None));
        rules.accounts = OfAccounts::LeaveOut;
        assert_eq!(pass(&rules).expect("left out"), (Vec::new(), Some(1)));
        rules.accounts = OfAccounts::Refuse;
        let refused: Failure = pass(&rules).expect_err("refused");
        assert!(refused.code() == 2 && refused.to_string().contains("--without-accounts"));
    }
}
