//! Encoders whose bytes sort as their values do.
