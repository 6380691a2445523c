//! Clients on threads, for as long as asked, each operation timed.
//!
//! A client sends its next operation when the last one has returned, so an operation that stalls delays those behind it:
//! the latencies are those that a client sees which waits, not those of requests that come at their own times.
//! Throughput is that of all clients over the time until the last of them ended.
//!
//! What is not here: comparing two things. Runs one after the other meet a machine in other moods; `rounds` is for that.
//!
//! Tested below.

use crate::Fail;
use crate::latency::histogram;
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
pub(crate) struct Stopwatch {
    end: Instant,
    latencies: Vec<Histogram<u64>>,
}

impl Stopwatch {
    /// Does operations until the time is over, at least one. Each says of which kind it was.
    pub(crate) fn repeat(
        &mut self,
        mut operation: impl FnMut() -> Result<usize, Fail>,
    ) -> Result<(), Fail> {
        let mut before = Instant::now();
        loop {
            let kind = operation()?;
            let after = Instant::now();
            self.latencies[kind].saturating_record((after - before).as_nanos() as u64);
            if after >= self.end {
                return Ok(());
            }
            before = after;
        }
    }
}

/// Runs `client` on as many threads, each with its number.
///
/// # Errors
/// The first error of a client; the others go on until the time is over.
pub(crate) fn drive(
    threads: usize,
    length: Duration,
    kinds: usize,
    client: impl Fn(usize, &mut Stopwatch) -> Result<(), Fail> + Sync,
) -> Result<Run, Fail> {
    let start = Instant::now();
    let stopwatch = || Stopwatch { end: start + length, latencies: vec![histogram(); kinds] };
    let mut latencies = vec![histogram(); kinds];
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..threads.max(1))
            .map(|number| {
                let (client, mut stopwatch) = (&client, stopwatch());
                scope.spawn(move || client(number, &mut stopwatch).map(|()| stopwatch.latencies))
            })
            .collect();
        for client in clients {
            let of_client = client.join().map_err(|_| "a client panicked")??;
            for (all, one) in latencies.iter_mut().zip(of_client) {
                all.add(one)?;
            }
        }
        Ok::<_, Fail>(())
    })?;
    Ok(Run { seconds: start.elapsed().as_secs_f64(), latencies })
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
}
