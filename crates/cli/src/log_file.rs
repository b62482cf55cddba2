//! Logs that a command is told to read: opened, unpacked, with a bar that shows how far it is.
//!
//! `history import` and `replay` read logs with it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::console::clean;

/// The bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// How far all of these are, how fast it goes, and how long it will take. Draws on standard error, and only
/// if that is a terminal.
pub(crate) fn bar_of(paths: &[PathBuf]) -> ProgressBar {
    let length = paths.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|about| about.len()).sum();
    let style =
        ProgressStyle::with_template("{msg} {bar:40} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left");
    let name = match paths {
        [path] => clean(&path.to_string_lossy()).into_owned(),
        several => format!("{} logs", several.len()),
    };
    let bar = ProgressBar::new(length).with_message(name);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The same for one log.
pub(crate) fn bar(path: &Path) -> ProgressBar {
    bar_of(&[path.to_owned()])
}

/// The log, unpacked if its first bytes say that it is packed; `-` is standard input.
pub(crate) fn open(path: &Path, bar: &ProgressBar) -> io::Result<Box<dyn BufRead + Send>> {
    if path == Path::new("-") {
        return unpacked(BufReader::with_capacity(BUFFER_BYTES, io::stdin()));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; name the logs in it"));
    }
    unpacked(BufReader::with_capacity(BUFFER_BYTES, bar.wrap_read(file)))
}

fn unpacked(mut reader: impl BufRead + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let packed: Box<dyn Read + Send> = match reader.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(reader)),
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::bufread::MultiBzDecoder::new(reader)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(ZstdFrames { frame: Some(zstd_frame(reader)?) }),
        _ => return Ok(Box::new(reader)),
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, packed)))
}

/// A file packed with zstd; logs that were packed one by one and put together have several frames.
struct ZstdFrames<R: BufRead> {
    /// None after the last.
    frame: Option<ZstdFrame<R>>,
}

type ZstdFrame<R> = StreamingDecoder<R, FrameDecoder>;

fn zstd_frame<R: BufRead>(reader: R) -> io::Result<ZstdFrame<R>> {
    StreamingDecoder::new(reader)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(mut frame) = self.frame.take() {
            let read = frame.read(out)?;
            if read > 0 || out.is_empty() {
                self.frame = Some(frame);
                return Ok(read);
            }
            let mut rest = frame.into_inner();
            if !rest.fill_buf()?.is_empty() {
                self.frame = Some(zstd_frame(rest)?);
            }
        }
        Ok(0)
    }
}
