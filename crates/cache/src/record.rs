//! A record is a file in three parts: a heading line with its kind, its version and the CRC-32 of
//! the rest; a line of JSON; and raw bytes. Reading rejects a record with a wrong checksum, kind or
//! version.

use std::io;

use flate2::Crc;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of record: its name (one word) and its version. Any change of the format requires a new
/// version.
#[derive(Debug, Clone, Copy)]
pub struct RecordKind(pub &'static str, pub u32);

impl RecordKind {
    /// Encodes a record of `value` and `raw` bytes.
    ///
    /// # Errors
    ///
    /// If `value` cannot be written as JSON.
    pub fn write(self, value: &impl Serialize, raw: &[u8]) -> io::Result<Vec<u8>> {
        Ok(self.seal(&[&serde_json::to_vec(value)?, &b"\n"[..], raw].concat()))
    }

    /// Prepends the heading line to `body`, a line of JSON and raw bytes.
    pub fn seal(self, body: &[u8]) -> Vec<u8> {
        [self.heading(body).as_bytes(), body].concat()
    }

    /// Reads a record. Returns its value and its raw bytes.
    ///
    /// # Errors
    ///
    /// If the record is damaged, or has another kind or version. The message is a clause, for use
    /// in a sentence about the file.
    pub fn read<T: DeserializeOwned>(self, record: &[u8]) -> io::Result<(T, &[u8])> {
        let after = |text: &[u8]| Some(memchr::memchr(b'\n', text)? + 1);
        let read = || {
            let (heading, body) = record.split_at(after(record)?);
            let (json, raw) = body.split_at(after(body)?);
            let is_whole = heading == self.heading(body).as_bytes();
            is_whole.then(|| Some((serde_json::from_slice(json).ok()?, raw)))?
        };
        let why = "its record is damaged or has another version";
        read().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, why))
    }

    fn heading(self, body: &[u8]) -> String {
        let mut crc = Crc::new();
        crc.update(body);
        format!("steelbank {} {} {:08x}\n", self.0, self.1, crc.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: RecordKind = RecordKind("trial", 3);

    fn read(record: &[u8]) -> Option<(Vec<String>, Vec<u8>)> {
        KIND.read(record).ok().map(|(value, raw)| (value, raw.to_vec()))
    }

    #[test]
    fn damaged_record_is_not_read() {
        let (value, raw) = (vec!["a\nb".to_owned(), "é".to_owned()], b"\n\0\xff\n".to_vec());
        let record = KIND.write(&value, &raw).unwrap();
        assert_eq!(read(&record).unwrap(), (value, raw));
        for at in 0..record.len() {
            assert!(read(&record[..at]).is_none(), "cut at {at}");
            for bit in 0..8 {
                let mut other = record.clone();
                other[at] ^= 1 << bit;
                assert!(read(&other).is_none(), "bit {bit} of byte {at}");
            }
        }
        assert!(read(&[&record[..], b"\n"].concat()).is_none());
        for other in [RecordKind("trial", 4), RecordKind("trials", 3), RecordKind("trial 3", 3)] {
            assert!(read(&other.write(&["a"], b"").unwrap()).is_none());
        }
        for body in [&b"[]"[..], b"{}\n", b"\n", b""] {
            assert!(read(&KIND.seal(body)).is_none());
        }
    }
}
