//! One-shot work: a chain of steps on a store of each engine, in rounds by turns, with only the store open whose
//! turn it is. Each step is a row.
//!
//! ```text
//! round 0   A: step 1, step 2, step 3   B: step 1, ...        no round is thrown away: each begins with a new store
//! round 1   B: step 1, ...              A: step 1, ...        the order is that of `rounds::turns`
//! ```
//!
//! An engine that fails or panics in a step has that step failed and goes no further, in this round and in those to
//! come; its figures of other steps are left out, as they would be of fewer rounds than those of the others.

use super::Args;
use super::contest::{Contest, Costs, Unit};
use crate::Fail;
use crate::engines::guard::guarded;
use crate::engines::kind::Kind;
use crate::engines::store::Lacks;
use crate::report::Report;
use crate::rounds::turns;

/// A step, and what it cost each engine.
struct Step {
    title: String,
    unit: Unit,
    costs: Costs,
}

/// The steps.
pub(super) struct Chain(Vec<Step>);

/// An engine on its way through the chain.
pub(super) struct Walk<'a> {
    chain: &'a mut Chain,
    kind: Kind,
    at: usize,
}

impl Walk<'_> {
    /// What the next step cost.
    pub(super) fn cost(&mut self, cost: f64) {
        self.chain.0[self.at].costs.push(self.kind, cost);
        self.at += 1;
    }

    /// The engine has nothing of the kind of the next step.
    pub(super) fn lacks(&mut self, lacks: Lacks) {
        self.chain.0[self.at].costs.fail(self.kind, lacks.into());
        self.at += 1;
    }
}

impl Chain {
    pub(super) fn new(args: &Args, steps: impl IntoIterator<Item = (String, Unit)>) -> Chain {
        let step = |(title, unit)| Step { title, unit, costs: Costs::new(args.engines.clone()) };
        Chain(steps.into_iter().map(step).collect())
    }

    /// Has each engine walk the chain, `rounds` times. `work` gives the cost of every step to its walk.
    pub(super) fn run(
        &mut self,
        args: &Args,
        rounds: usize,
        mut work: impl FnMut(Kind, &mut Walk<'_>) -> Result<(), Fail>,
    ) {
        let mut fit = args.engines.clone();
        for round in 0..rounds {
            let order: Vec<Kind> = turns(round, fit.len()).into_iter().map(|at| fit[at]).collect();
            for kind in order {
                let mut walk = Walk { chain: self, kind, at: 0 };
                if let Err(error) = guarded(|| work(kind, &mut walk)) {
                    let at = walk.at.min(self.0.len() - 1);
                    self.0[at].costs.fail(kind, error);
                    fit.retain(|&other| other != kind);
                }
            }
        }
    }

    /// Tells all rows.
    pub(super) fn tell(self, contest: &mut Contest, report: &mut Report) -> Result<(), Fail> {
        for Step { title, unit, costs } in self.0 {
            contest.tell(report, &title, unit, &costs)?;
        }
        Ok(())
    }
}
