//! Crash images by seed: databases that lost power at a random moment, recovered and held against what they may hold.
//!
//! ```text
//!   seed -> history   open, 5 to 40 commits of all kinds, perhaps a failing disk, perhaps a power cut and on from there
//!        -> images    moments between two calls of the disks, each with what the power cut keeps
//!        -> recovery  perhaps cut off again, up to three times, or on a failing disk
//!        -> verdict   a state that is allowed, whole, the same when opened again, and fit to work on
//! ```
//!
//! The parts: `workload` what is done, `oracle` what may be found, `image` how an image is looked at, `threads` histories
//! of several threads, `history` the way from a seed to its images, `disks` those that lie.
//!
//! Environment:
//! - `LATCHKV_IMAGES`: how many images, 600 by default (times `LATCHKV_TEST_SCALE` percent). A long run is
//!   `LATCHKV_IMAGES=200000 LATCHKV_TEST_SEED=… cargo test --release -p latchkv --test images by_seed -- --nocapture`.
//! - `LATCHKV_IMAGE`: one image again, as a failure prints it: the seed of its history, a colon, its number.
//! - `LATCHKV_IMAGES_TRACE`: anything, to have the calls of the history printed.
//!
//! A seed fixes the calls and what the disks keep. Identities and salts are drawn by the engine, and its background
//! thread may write in between, so now and then an image has to be tried more than once.

#[path = "../common/mod.rs"]
mod common;

mod disks;
mod history;
mod image;
mod oracle;
mod threads;
mod workload;

use disks::Lies;
use history::{Failure, History};
use std::time::{Duration, Instant};

/// Images of one history.
const IMAGES_PER_HISTORY: u64 = 12;

fn images_wanted() -> u64 {
    let wanted = std::env::var("LATCHKV_IMAGES").ok().and_then(|count| count.parse().ok());
    wanted.unwrap_or_else(|| common::scaled(600, 60) as u64)
}

/// One image that failed before, from the environment.
fn image_wanted() -> Option<(u64, Option<u64>)> {
    let wanted = std::env::var("LATCHKV_IMAGE").ok()?;
    let (seed, image) = wanted.split_once(':').unwrap_or((&wanted, ""));
    Some((seed.parse().expect("LATCHKV_IMAGE=seed:number"), image.parse().ok()))
}

/// Goes through histories from `seed` on until there were `count` images. Gives how many there were.
fn run(seed: u64, count: u64, lies: Lies) -> Result<u64, Failure> {
    let started = Instant::now();
    let mut said = started;
    let (mut images, mut number) = (0, 0u64);
    while images < count {
        let seed = (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 1;
        let history = History::of(seed, lies)?;
        let here = IMAGES_PER_HISTORY.min(count - images);
        for image in 0..here {
            history.verify(image)?;
        }
        images += here;
        number += 1;
        if said.elapsed() > Duration::from_secs(60) {
            said = Instant::now();
            println!("{images} images of {number} histories in {:?}", started.elapsed());
        }
    }
    println!("{images} images of {number} histories in {:?}", started.elapsed());
    Ok(images)
}

#[test]
fn images_by_seed_hold_what_was_acknowledged_and_nothing_in_part() {
    if let Some((seed, image)) = image_wanted() {
        let replayed = History::of(seed, Lies::None).and_then(|history| match image {
            Some(image) => history.verify(image),
            None => (0..IMAGES_PER_HISTORY).try_for_each(|image| history.verify(image)),
        });
        return replayed.unwrap_or_else(|failure| panic!("{failure}"));
    }
    let seed = common::seed(600);
    if let Err(failure) = run(seed, images_wanted(), Lies::None) {
        panic!("{failure}");
    }
}

#[test]
fn every_moment_of_short_histories_can_be_recovered_from() {
    let seed = common::seed(601);
    for number in 0..common::scaled(4, 1) as u64 {
        history::verify_every_moment(seed ^ number).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// The runner finds disks that lie within so many images.
fn assert_noticed(lies: Lies) {
    // Not by the seed of the environment: whether it is found in time hangs on it.
    match run(7, 600, lies) {
        Err(failure) => println!("noticed: {failure}"),
        Ok(images) => panic!("{lies:?} was not noticed in {images} images"),
    }
}

#[test]
fn a_sync_of_the_log_that_lies_is_noticed() {
    assert_noticed(Lies::LogSync);
}

#[test]
fn a_sync_of_the_data_that_lies_is_noticed() {
    assert_noticed(Lies::DataSync);
}

#[test]
fn a_write_of_the_log_that_lies_is_noticed() {
    assert_noticed(Lies::LogWrite);
}

#[test]
fn a_write_of_the_data_that_lies_is_noticed() {
    assert_noticed(Lies::DataWrite);
}
