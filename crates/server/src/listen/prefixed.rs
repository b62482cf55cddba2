//! Bytes put back in front of a stream.
//!
//! Whoever looks at the first bytes of a connection and leaves it to hyper
//! puts them back here.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::stream::ReadFilter;

/// Bytes that are read before those of the stream.
#[derive(Debug, Default)]
pub(crate) struct Prefixed {
    prefix: Vec<u8>,
    /// How much of it has been read.
    read: usize,
}

impl Prefixed {
    pub(crate) const fn new(prefix: Vec<u8>) -> Self {
        Self { prefix, read: 0 }
    }
}

impl ReadFilter for Prefixed {
    fn poll_read(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = self.prefix.get(self.read..).unwrap_or_default();
        if rest.is_empty() {
            return Pin::new(io).poll_read(cx, buf);
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..count).unwrap_or_default());
        self.read += count;
        if self.read == self.prefix.len() {
            *self = Self::default();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::stream::{ByteCount, FilteredStream};
    use super::*;

    #[tokio::test]
    async fn the_prefix_is_read_first_and_not_counted() {
        let (mut caller, ours) = tokio::io::duplex(64);
        caller.write_all(b"defg").await.unwrap();
        drop(caller);
        let bytes = Arc::new(ByteCount::default());
        let prefix = Prefixed::new(b"abc".to_vec());
        let mut stream = FilteredStream::new(Box::new(ours), prefix, Arc::clone(&bytes));
        let mut two = [0; 2];
        stream.read_exact(&mut two).await.unwrap();
        assert_eq!(&two, b"ab");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!((rest.as_slice(), bytes.traffic().read), (&b"cdefg"[..], 4));
    }
}
