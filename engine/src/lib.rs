//! Placeholder head.
pub mod error;
pub mod id;
