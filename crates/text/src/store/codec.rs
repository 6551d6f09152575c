//! Encodes and decodes numbers and bytes in index files. Decoding never panics; invalid bytes
//! decode to `None`.

/// Appends `value`, seven bits per byte, low bits first. The high bit is set in every byte except
/// the last.
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of `bytes`, then `bytes`.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends the length of the prefix that `bytes` shares with `previous`, then the rest.
pub(crate) fn put_after(out: &mut Vec<u8>, previous: &[u8], bytes: &[u8]) {
    let shared = previous.iter().zip(bytes).take_while(|(left, right)| left == right).count();
    put_number(out, shared as u64);
    put_bytes(out, &bytes[shared..]);
}

/// Reads values written by the functions above, and integers of fixed size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?.try_into().ok()?;
        self.take(length)
    }

    pub(crate) fn fixed(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Replaces `previous`, the preceding value, by the next value, which [`put_after`] wrote.
    pub(crate) fn after(&mut self, previous: &mut Vec<u8>) -> Option<()> {
        let shared = self.number()?.try_into().ok().filter(|&shared| shared <= previous.len())?;
        previous.truncate(shared);
        previous.extend_from_slice(self.bytes()?);
        Some(())
    }
}

/// Returns a checksum of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
