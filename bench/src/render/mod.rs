//! What is made of files of reports: tables side by side, plots, and a page of both.
//!
//! ```text
//! FILE.json --file--> File --side--> Section: a table, and what to plot of it --+-- report::Table  text
//!                                                                               +-- plot           SVG
//!                                                                               +-- html           page
//! ```
//!
//! Several files are of one command, on several machines or of several days. Times of a machine that was emulated are
//! withheld here, whatever the file says.

pub(crate) mod file;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod plot;
pub(crate) mod side;
