//! Clients on threads, for as long as asked, each operation timed.
//!
//! A client sends its next operation when the last one has returned, so an operation that stalls delays those behind it:
//! the latencies are those that a client sees which waits, not those of requests that come at their own times.
//! A tenth of the time is run first and not counted: caches and the allocator are cold, and clients are still being made.
//! Then all begin together, and throughput is that of all clients from the first start to the last end.
//!
//! What is not here: comparing two things. Runs one after the other meet a machine in other moods; `rounds` is for that.
//!
//! Tested below.

use crate::Fail;
use crate::latency::histogram;
use crate::team::{self, Member, Span};
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// What the clients of a run have done.
pub(crate) struct Run {
    pub(crate) seconds: f64,
    /// Nanoseconds of the operations, for each kind of them.
    pub(crate) latencies: Vec<Histogram<u64>>,
}

impl Run {
    /// Operations of all kinds a second.
    pub(crate) fn per_second(&self) -> f64 {
        let operations: u64 = self.latencies.iter().map(Histogram::len).sum();
        operations as f64 / self.seconds
    }
}

/// Times the operations of one client.
pub(crate) struct Stopwatch<'a> {
    member: &'a Member<'a>,
    length: Duration,
    latencies: Vec<Histogram<u64>>,
    span: Option<Span>,
    operations: u64,
}

impl Stopwatch<'_> {
    /// Does operations until the time is over, one at least before it counts and one after. Each says of which kind it was.
    pub(crate) fn repeat(
        &mut self,
        mut operation: impl FnMut() -> Result<usize, Fail>,
    ) -> Result<(), Fail> {
        let warm_until = Instant::now() + self.length / WARM_PART;
        loop {
            operation()?;
            self.operations += 1;
            if Instant::now() >= warm_until {
                break;
            }
        }
        self.member.begin()?;
        let start = Instant::now();
        let mut before = start;
        loop {
            let kind = operation()?;
            let after = Instant::now();
            self.operations += 1;
            self.latencies[kind].saturating_record((after - before).as_nanos() as u64);
            if after - start >= self.length {
                self.span = Some(Span { start, end: after });
                return Ok(());
            }
            before = after;
        }
    }

    /// Operations so far, with those that do not count.
    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }
}

/// The whole time over the time that is run before.
const WARM_PART: u32 = 10;

/// Runs `client` on as many threads, each with its number. It calls [`Stopwatch::repeat`] once.
///
/// # Errors
/// The first error of a client; the others go on until the time is over, or do not begin.
pub(crate) fn drive(
    threads: usize,
    length: Duration,
    kinds: usize,
    client: impl Fn(usize, &mut Stopwatch<'_>) -> Result<(), Fail> + Sync,
) -> Result<Run, Fail> {
    let one = |number: usize, member: &Member<'_>| {
        let latencies = vec![histogram(); kinds];
        let mut stopwatch = Stopwatch { member, length, latencies, span: None, operations: 0 };
        client(number, &mut stopwatch)?;
        let span = stopwatch.span.ok_or("a client has done nothing")?;
        Ok((span, stopwatch.latencies))
    };
    let (clients, ()) = team::run(threads.max(1), one, || ())?;
    let seconds = Span::of_all(clients.iter().map(|(span, _)| *span)).as_secs_f64();
    let mut latencies = vec![histogram(); kinds];
    for (_, of_client) in clients {
        for (all, one) in latencies.iter_mut().zip(of_client) {
            all.add(one)?;
        }
    }
    Ok(Run { seconds, latencies })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_of_all_clients_are_counted_by_their_kinds() {
        let run =
            drive(3, Duration::ZERO, 2, |number, stopwatch| stopwatch.repeat(|| Ok(number % 2)));
        let run = run.expect("runs");
        assert_eq!(run.latencies.iter().map(Histogram::len).collect::<Vec<_>>(), [2, 1]);
        assert!(run.per_second() > 0.0);
    }

    #[test]
    fn an_error_of_one_client_is_that_of_the_run() {
        let run = drive(2, Duration::ZERO, 1, |number, stopwatch| {
            stopwatch.repeat(|| if number == 1 { Err("no".into()) } else { Ok(0) })
        });
        assert_eq!(run.err().map(|error| error.to_string()).as_deref(), Some("no"));
    }

    #[test]
    fn what_runs_before_the_start_does_not_count() {
        let run = drive(2, Duration::ZERO, 1, |_, stopwatch| {
            stopwatch.repeat(|| Ok(0))?;
            assert_eq!(stopwatch.operations(), 2);
            Ok(())
        });
        assert_eq!(run.expect("runs").latencies[0].len(), 2);
    }
}
