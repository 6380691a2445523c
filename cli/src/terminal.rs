//! Asking at the terminal for what it must not show.
//!
//! ```text
//! open    echo off, keys make no signals, Ctrl-C and Ctrl-\ end a line      all typed before is thrown away
//! ask     prompt, a line; the kernel does erasing, as in any line
//! drop    as it was
//! ```
//!
//! It is the process's terminal, whatever standard input and output are. Keys make no signals meanwhile, since one that
//! ends the process would leave the terminal without echo; so Ctrl-C comes as the end of a line, and is an answer of its
//! own. The echo is off before the first prompt is there, and stays so until the last answer.
//!
//! Tested in `tests/passwords.rs`, at a terminal.

use crate::password::Password;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use zeroize::Zeroizing;

/// More than the kernel gives as one line.
const LINE_BYTES_MAX: usize = 8192;
const CTRL_C: u8 = 3;
const CTRL_BACKSLASH: u8 = 28;

/// A terminal that does not show what is typed.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    before: Termios,
}

impl Terminal {
    /// The terminal of this process. An error: it has none.
    pub(crate) fn open() -> io::Result<Terminal> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        let before = tcgetattr(&tty)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG);
        hidden.local_modes.insert(LocalModes::ICANON | LocalModes::IEXTEN);
        hidden.input_modes.insert(InputModes::ICRNL);
        hidden.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        hidden.special_codes[SpecialCodeIndex::VEOL2] = CTRL_BACKSLASH;
        tcsetattr(&tty, OptionalActions::Flush, &hidden)?;
        Ok(Terminal { tty, before })
    }

    /// Prompts, and reads a line, which is given without its end. `None`: Ctrl-C, or the end of the input.
    pub(crate) fn ask(&mut self, prompt: &str) -> io::Result<Option<Password>> {
        self.tty.write_all(prompt.as_bytes())?;
        let line = self.line();
        // The one that ended the line was not shown.
        self.tty.write_all(b"\n")?;
        line
    }

    fn line(&mut self) -> io::Result<Option<Password>> {
        let mut line = Zeroizing::new(vec![0; LINE_BYTES_MAX]);
        let mut length = 0;
        // More than one read only if Ctrl-D came within the line.
        while length < line.len() {
            let read = match self.tty.read(&mut line[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            length += read;
            match line[..length].last() {
                _ if read == 0 => return Ok(None),
                Some(b'\n') => {
                    line.truncate(length - 1);
                    return Ok(Some(line));
                }
                Some(&(CTRL_C | CTRL_BACKSLASH)) => return Ok(None),
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If it fails, the terminal is gone.
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
    }
}
