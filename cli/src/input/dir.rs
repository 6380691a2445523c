//! `dir`: a folder. Key = path below the folder with `/` between its parts, value = contents.
//!
//! Names are bytes, UTF-8 or not. Regular files only: symbolic links are not followed, devices, pipes
//! and sockets are not read, empty folders leave no trace; what is left out is counted. The database
//! itself is left out if it lies in the folder. A file or folder that cannot be read, or is too large,
//! is bad and named by its path; a bad subfolder hides only what is below it.

use super::{Place, Sink, Skipped, Value};
use crate::exit::{Failure, Outcome};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Gives every file below `root` to `sink`, except what lies in the folder `leave_out`.
pub(super) fn read(root: &Path, leave_out: &Path, sink: &mut dyn Sink) -> Outcome {
    let identity = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    let leave_out = identity(leave_out);
    if leave_out.is_some() && identity(root) == leave_out {
        return Err(Failure::Usage("a database cannot be loaded into itself".into()));
    }
    let mut value = Vec::new();
    // Folders still to be read: their keys end in '/', except that of the root, which is empty.
    let mut todo: Vec<(PathBuf, Vec<u8>)> = vec![(root.to_path_buf(), Vec::new())];
    while let Some((folder, prefix)) = todo.pop() {
        let names = match names_in(&folder) {
            Ok(names) => names,
            Err(error) if prefix.is_empty() => {
                return Err(Failure::file("reading", &folder, error));
            }
            Err(error) => {
                sink.bad(Place::Path(&folder), error.to_string())?;
                continue;
            }
        };
        let mut folders = Vec::new();
        for name in names {
            let path = folder.join(&name);
            let mut key = prefix.clone();
            key.extend_from_slice(name.as_bytes());
            let metadata = match fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) => {
                    sink.bad(Place::Path(&path), error.to_string())?;
                    continue;
                }
            };
            if metadata.is_dir() {
                if Some((metadata.dev(), metadata.ino())) == leave_out {
                    sink.skipped(Skipped::Database);
                } else {
                    key.push(b'/');
                    folders.push((path, key));
                }
            } else if metadata.is_file() {
                read_file(&path, &key, &mut value, sink)?;
            } else if metadata.is_symlink() {
                sink.skipped(Skipped::SymbolicLink);
            } else {
                sink.skipped(Skipped::Special);
            }
        }
        todo.extend(folders.into_iter().rev());
    }
    Ok(())
}

/// Names in a folder, in order of their bytes.
fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    let entries = fs::read_dir(folder)?;
    let mut names: Vec<OsString> =
        entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}

fn read_file(path: &Path, key: &[u8], value: &mut Vec<u8>, sink: &mut dyn Sink) -> Outcome {
    let place = Place::Path(path);
    let bytes_max = sink.value_bytes_max();
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (bytes, file) = match opened {
        Ok(opened) => opened,
        Err(error) => return sink.bad(place, error.to_string()),
    };
    let too_large = |bytes| format!("{bytes} bytes are over the limit of {bytes_max} for a value");
    if bytes > bytes_max {
        return sink.bad(place, too_large(bytes));
    }
    if !sink.wants_values() {
        sink.record(place, key, Value::Unread(bytes))?;
        sink.bytes_read(bytes);
        return Ok(());
    }
    value.clear();
    // One byte more than allowed shows a file that grew, or that said it had no length.
    if let Err(error) = file.take(bytes_max + 1).read_to_end(value) {
        return sink.bad(place, error.to_string());
    }
    let bytes = value.len() as u64;
    if bytes > bytes_max {
        return sink.bad(place, too_large(bytes));
    }
    sink.record(place, key, Value::Bytes(value))?;
    sink.bytes_read(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Notes, Seen};
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_become_records_and_links_and_the_database_are_left_out() {
        let root = tempfile::tempdir().expect("temporary folder");
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("b/c")).expect("create");
        fs::create_dir_all(at("db")).expect("create");
        fs::create_dir_all(at("empty")).expect("create");
        fs::write(at("a"), "1").expect("write");
        fs::write(at("b/c/d"), "").expect("write");
        fs::write(at("db/data"), "secret").expect("write");
        fs::write(root.path().join(OsStr::from_bytes(b"z\xff")), "raw").expect("write");
        symlink("a", at("link")).expect("link");
        symlink("b", at("link-to-folder")).expect("link");
        let mut notes = Notes::default();
        read(root.path(), &at("db"), &mut notes).expect("reads");
        let mut seen = notes.seen.clone();
        seen.sort_by_key(|seen| format!("{seen:?}"));
        let want = [
            Seen::Record(b"a".to_vec(), b"1".to_vec()),
            Seen::Record(b"z\xff".to_vec(), b"raw".to_vec()),
            Seen::Record(b"b/c/d".to_vec(), vec![]),
            Seen::Skipped(Skipped::SymbolicLink),
            Seen::Skipped(Skipped::SymbolicLink),
            Seen::Skipped(Skipped::Database),
        ];
        for record in &want {
            let count = |seen: &[Seen]| seen.iter().filter(|other| *other == record).count();
            assert_eq!(count(&seen), count(&want), "{record:?}");
        }
        assert_eq!(seen.len(), want.len());
        assert_eq!(notes.bytes, 4);
    }

    #[test]
    fn a_file_over_the_limit_is_bad_and_named() {
        let root = tempfile::tempdir().expect("temporary folder");
        let large = root.path().join("large");
        let file = File::create(&large).expect("create");
        file.set_len((1 << 20) + 1).expect("sparse file");
        let mut notes = Notes::default();
        read(root.path(), Path::new("none"), &mut notes).expect("reads");
        assert_eq!(notes.bad()[0].0, large.display().to_string());
        assert!(notes.bad()[0].1.contains("over the limit of 1048576"));
    }

    #[test]
    fn a_missing_folder_and_the_database_itself_are_refused() {
        let root = tempfile::tempdir().expect("temporary folder");
        let missing = root.path().join("none");
        assert!(read(&missing, Path::new("none"), &mut Notes::default()).is_err());
        assert!(read(root.path(), root.path(), &mut Notes::default()).is_err());
    }
}
