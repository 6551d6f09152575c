//! A record: a line that names its kind, its version and the CRC-32 of the rest, a line of JSON, then raw bytes. It is
//! read whole or not at all.

use std::io;

use flate2::Crc;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of record, in one version.
#[derive(Debug, Clone, Copy)]
pub struct RecordKind {
    name: &'static str,
    version: u32,
}

impl RecordKind {
    /// The kind called `name`, in one word. Each change of what it holds needs a new `version`.
    pub const fn new(name: &'static str, version: u32) -> Self {
        Self { name, version }
    }

    /// Writes a record of `value` and of `raw` bytes.
    ///
    /// # Errors
    /// `value` cannot be written as JSON.
    pub fn write(self, value: &impl Serialize, raw: &[u8]) -> io::Result<Vec<u8>> {
        let mut body = serde_json::to_vec(value)?;
        body.push(b'\n');
        body.extend_from_slice(raw);
        Ok(self.seal(&body))
    }

    /// Puts the first line before `body`, a line of JSON and raw bytes.
    pub fn seal(self, body: &[u8]) -> Vec<u8> {
        [self.heading().as_bytes(), checksum(body).as_bytes(), body].concat()
    }

    /// Reads a record of this kind and version: its value and the raw bytes.
    ///
    /// # Errors
    /// It is another one, or damaged: a sentence's end.
    pub fn read<T: DeserializeOwned>(self, record: &[u8]) -> io::Result<(T, &[u8])> {
        let refused = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let damaged = || refused("its record is damaged".to_owned());
        let rest = record
            .strip_prefix(self.heading().as_bytes())
            .ok_or_else(|| refused("its record is of another version".to_owned()))?;
        let (sum, body) = rest.split_at_checked(SUM).ok_or_else(damaged)?;
        let mut parts = body.splitn(2, |byte| *byte == b'\n');
        match (parts.next(), parts.next()) {
            (Some(json), Some(raw)) if sum == checksum(body).as_bytes() => {
                let value = serde_json::from_slice(json);
                Ok((value.map_err(|error| refused(format!("its record cannot be read: {error}")))?, raw))
            }
            _ => Err(damaged()),
        }
    }

    fn heading(self) -> String {
        format!("steelbank {} {} ", self.name, self.version)
    }
}

/// The length of a checksum.
const SUM: usize = 9;

fn checksum(body: &[u8]) -> String {
    let mut crc = Crc::new();
    crc.update(body);
    format!("{:08x}\n", crc.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: RecordKind = RecordKind::new("trial", 3);

    fn read(record: &[u8]) -> Result<(Vec<String>, Vec<u8>), String> {
        let read = KIND.read(record).map_err(|error| error.to_string());
        read.map(|(value, raw)| (value, raw.to_vec()))
    }

    #[test]
    fn a_record_is_read_whole_or_not_at_all() {
        let (value, raw) = (vec!["a\nb".to_owned(), "é".to_owned()], b"\n\0\xff\n".to_vec());
        let record = KIND.write(&value, &raw).unwrap();
        assert_eq!(read(&record).unwrap(), (value, raw));
        for at in 0..record.len() {
            assert!(read(&record[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut other = record.clone();
                other[at] ^= 1 << bit;
                assert!(read(&other).is_err(), "bit {bit} of byte {at}");
            }
        }
        assert!(read(&[&record[..], b"\n"].concat()).is_err());
    }

    #[test]
    fn what_is_refused_is_told() {
        for other in [RecordKind::new("trial", 4), RecordKind::new("trials", 3)] {
            let record = other.write(&["a"], b"").unwrap();
            assert_eq!(read(&record).unwrap_err(), "its record is of another version");
        }
        assert_eq!(read(b"steelbank trial 3 ").unwrap_err(), "its record is damaged");
        assert!(read(&KIND.seal(b"[]")).is_err());
        assert!(read(&KIND.seal(b"{}\n")).unwrap_err().starts_with("its record cannot be read: "));
    }
}
