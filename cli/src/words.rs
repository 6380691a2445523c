//! Words of messages.

use indicatif::HumanCount;
use std::io;

/// A noun after its number: `record` for one, `records` else.
pub(crate) fn plural(count: u64, one: &str) -> String {
    if count == 1 { one.to_owned() } else { format!("{one}s") }
}

/// A number and its noun: `1 record`, `2,000 records`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    format!("{} {}", HumanCount(count), plural(count, one))
}

/// What the operating system said, without the path of a temporary file, which `tempfile` adds and which says
/// nothing to the user.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at path \"") {
        Some((said, _)) if error.raw_os_error().is_none() => said.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_else_plural() {
        assert_eq!(counted(1, "record"), "1 record");
        assert_eq!(counted(0, "record"), "0 records");
        assert_eq!(counted(21_940, "record"), "21,940 records");
    }

    #[test]
    fn an_error_about_a_temporary_file_is_told_without_its_path() {
        let error = tempfile::NamedTempFile::new_in("/none such").expect_err("no such folder");
        assert!(error.to_string().contains("none such"), "{error}");
        let said = io::Error::from_raw_os_error(2).to_string();
        assert_eq!(plain(&error), said);
        assert_eq!(plain(&io::Error::from_raw_os_error(2)), said);
        assert_eq!(plain(&io::Error::other("words")), "words");
    }
}
