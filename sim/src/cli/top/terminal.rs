//! The terminal of `ferroce top`: its alternate screen, which is redrawn as a whole, and its keys.

use std::io::{self, Stdout, Write, stdin, stdout};
use std::time::{Duration, Instant};

use ferroce_platform::os::service::Termination;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::view::{Line, Look, Size};

/// Maximum wait for a key; then signals and the terminal's size are checked.
const KEY_WAIT: Duration = Duration::from_millis(50);

const SECOND_SCREEN: &str = "\x1b[?1049h\x1b[?25l";
const FIRST_SCREEN: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
const PLAIN: &str = "\x1b[m";

/// Interrupt (Ctrl-C), which is an ordinary key in this mode.
const INTERRUPT: u8 = 3;

/// The event that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The user quit, a signal arrived, or the terminal was closed.
    End,
    /// It is time for the next table.
    Time,
    /// The terminal has another size.
    Resized,
}

/// The terminal, on its alternate screen and without echo until it is dropped.
pub struct Terminal {
    output: Stdout,
    before: Termios,
    signals: Termination,
    has_colours: bool,
}

impl Terminal {
    /// Switches the terminal to its alternate screen.
    ///
    /// # Errors
    /// Standard input is not a terminal.
    pub fn open() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut modes = before.clone();
        modes
            .local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        let signals = Termination::keep();
        tcsetattr(stdin(), OptionalActions::Now, &modes)?;
        let mut terminal = Self {
            output: stdout(),
            before,
            signals,
            has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        terminal.output.write_all(SECOND_SCREEN.as_bytes())?;
        Ok(terminal)
    }

    /// Returns its size.
    ///
    /// # Errors
    /// The terminal was closed.
    pub fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(&self.output)?;
        Ok(match (size.ws_col, size.ws_row) {
            // The terminal does not know its size.
            (0, _) | (_, 0) => Size {
                columns: 80,
                rows: 24,
            },
            (columns, rows) => Size { columns, rows },
        })
    }

    /// Draws these lines, none of which is longer than the screen is wide.
    ///
    /// # Errors
    /// The terminal was closed.
    pub fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut screen = HOME.to_owned();
        for (number, line) in lines.iter().enumerate() {
            if number != 0 {
                screen += "\r\n";
            }
            let look = self.look(line.look);
            screen += look;
            screen += &line.text;
            if !look.is_empty() {
                screen += PLAIN;
            }
            screen += CLEAR_LINE;
        }
        screen += CLEAR_BELOW;
        self.output.write_all(screen.as_bytes())?;
        self.output.flush()
    }

    fn look(&self, look: Look) -> &'static str {
        match look {
            Look::Plain => "",
            Look::Heading => "\x1b[1m",
            Look::Failed if self.has_colours => "\x1b[31m",
            Look::Failed => "\x1b[1m",
        }
    }

    /// Waits until `time`, or until another event.
    ///
    /// # Errors
    /// The terminal was closed.
    pub fn wait(&self, time: Instant, size: Size) -> io::Result<Event> {
        loop {
            let left = time.saturating_duration_since(Instant::now());
            if self.signals.wait(Duration::ZERO) || self.is_end(left.min(KEY_WAIT))? {
                return Ok(Event::End);
            }
            if self.size()? != size {
                return Ok(Event::Resized);
            }
            if Instant::now() >= time {
                return Ok(Event::Time);
            }
        }
    }

    /// Waits for a key for at most `limit`. Returns true if it ends the program.
    fn is_end(&self, limit: Duration) -> io::Result<bool> {
        let input = stdin();
        let mut polled = [PollFd::new(&input, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: limit.as_secs().cast_signed(),
            tv_nsec: limit.subsec_nanos().into(),
        };
        if poll(&mut polled, Some(&limit))? == 0 {
            return Ok(false);
        }
        let mut keys = [0; 64];
        let count = rustix::io::read(&input, &mut keys)?;
        let is_end = |key: &u8| matches!(*key, b'q' | b'Q' | INTERRUPT);
        Ok(count == 0 || keys[..count].iter().any(is_end))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The terminal may be closed.
        let _ = self.output.write_all(FIRST_SCREEN.as_bytes());
        let _ = self.output.flush();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
