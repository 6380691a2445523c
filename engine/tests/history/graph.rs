//! Who comes before whom, and why; cycles in that.

use crate::history::{Txn, Wrong};
use std::collections::BTreeSet;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// It wrote a version, the other the next one.
    Ww,
    /// It wrote the version that the other read.
    Wr,
    /// It read a version, the other wrote the next one: an anti-dependency.
    Rw,
    /// It had ended before the other began.
    Time,
}

/// Transactions, by number, then points of time.
pub(crate) struct Graph {
    edges: Vec<BTreeSet<(usize, Why)>>,
    txns: usize,
}

impl Graph {
    /// Nothing but the order of time between the transactions: each goes to the point of its end, which goes to
    /// the next such point, and the last point before a beginning goes to the transaction.
    pub(crate) fn new(all: &[Txn]) -> Graph {
        let mut ends: Vec<(u64, usize)> =
            all.iter().enumerate().map(|(number, txn)| (txn.ended, number)).collect();
        ends.sort_unstable();
        let mut graph =
            Graph { edges: vec![BTreeSet::new(); all.len() + ends.len()], txns: all.len() };
        for (index, (_, number)) in ends.iter().enumerate() {
            graph.add(*number, all.len() + index, Why::Time);
            if index > 0 {
                graph.add(all.len() + index - 1, all.len() + index, Why::Time);
            }
        }
        for (number, txn) in all.iter().enumerate().filter(|(_, txn)| !txn.stale) {
            let ended = ends.partition_point(|(end, _)| *end < txn.began);
            if ended > 0 {
                graph.add(all.len() + ended - 1, number, Why::Time);
            }
        }
        graph
    }

    /// `from` comes before `to`. Nothing, if they are the same.
    pub(crate) fn add(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.edges[from].insert((to, why));
        }
    }

    /// The first cycle that the level forbids: what it is called, and its way.
    pub(crate) fn forbidden(&self, serializable: bool) -> Option<(Wrong, String)> {
        use Why::{Rw, Time, Wr, Ww};
        let search = |whys: &[Why], adjacent: bool| self.cycle(whys, adjacent);
        if let Some(cycle) = search(&[Ww], false) {
            return Some((Wrong::G0, self.text(&cycle)));
        }
        if let Some(cycle) = search(&[Ww, Wr], false) {
            return Some((Wrong::G1c, self.text(&cycle)));
        }
        // Snapshot isolation allows a cycle only if two anti-dependencies follow each other in it.
        if let Some(cycle) = search(&[Ww, Wr, Rw], false) {
            let count = cycle.iter().filter(|(_, why)| *why == Rw).count();
            let wrong = if count == 1 { Wrong::GSingle } else { Wrong::GNonadjacent };
            return Some((wrong, self.text(&cycle)));
        }
        if serializable && let Some(cycle) = search(&[Ww, Wr, Rw], true) {
            return Some((Wrong::G2, self.text(&cycle)));
        }
        let cycle = search(&[Ww, Wr, Rw, Time], serializable)?;
        Some((Wrong::Time, self.text(&cycle)))
    }

    fn text(&self, cycle: &[(usize, Why)]) -> String {
        let name = |node: usize| match node < self.txns {
            true => format!("T{node}"),
            false => format!("t{}", node - self.txns),
        };
        let steps = cycle.iter().map(|(node, why)| format!("{} -{why:?}-> ", name(*node)));
        steps.collect::<String>() + &name(cycle[0].0)
    }

    /// A cycle of such edges; with anti-dependencies that follow each other, or without. Nodes, each with the
    /// edge that leaves it.
    fn cycle(&self, whys: &[Why], adjacent: bool) -> Option<Vec<(usize, Why)>> {
        // A place of the search: a node, and whether an anti-dependency led to it.
        let place = |node: usize, why: Why| 2 * node + usize::from(!adjacent && why == Why::Rw);
        let next = |at: usize| {
            let allowed =
                move |why: &Why| whys.contains(why) && (at.is_multiple_of(2) || *why != Why::Rw);
            self.edges[at / 2].iter().filter(move |(_, why)| allowed(why))
        };
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            No,
            OnPath,
            Done,
        }
        let mut seen = vec![Seen::No; 2 * self.edges.len()];
        for start in 0..self.edges.len() {
            if seen[2 * start] != Seen::No {
                continue;
            }
            let mut path = vec![(2 * start, next(2 * start), Why::Time)];
            seen[2 * start] = Seen::OnPath;
            while let Some((at, edges, taken)) = path.last_mut() {
                let Some((to, why)) = edges.next() else {
                    seen[*at] = Seen::Done;
                    path.pop();
                    continue;
                };
                *taken = *why;
                let to = place(*to, *why);
                match seen[to] {
                    Seen::Done => {}
                    Seen::No => {
                        seen[to] = Seen::OnPath;
                        path.push((to, next(to), Why::Time));
                    }
                    Seen::OnPath => {
                        let from = path.iter().position(|(at, ..)| *at == to);
                        let cycle = &path[from.expect("it is on the path")..];
                        return Some(cycle.iter().map(|(at, _, why)| (at / 2, *why)).collect());
                    }
                }
            }
        }
        None
    }
}
