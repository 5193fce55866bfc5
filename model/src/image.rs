//! Core: an operating system that machines boot, in the versions that the operator uploaded.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::blob::Blob;
use crate::name::{NameError, Word};
use crate::time::Timestamp;

/// Most initial file systems of one image; the kernel unpacks them one over the other.
pub const INITRDS_MAX: usize = 8;
/// Most words of one list of kernel parameters.
pub const PARAMETERS_MAX: usize = 64;
/// Versions that are remembered after their removal, the latest of all images: one a day for 27 years.
pub const REMOVED_MAX: usize = 10_000;
/// Longest word of kernel parameters, in bytes: x86 takes a command line of 2,048 bytes.
pub const PARAMETER_BYTES_MAX: usize = 512;

/// Characters of a wrong text that an error repeats.
const TOLD_MAX: usize = 80;

/// One version of an operating system: the document `images/NAME/VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub id: ImageId,
    /// The files that a machine loads.
    pub files: ImageFiles,
    /// Kernel parameters; a unified kernel image holds its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// When it was uploaded.
    pub ctime: Timestamp,
}

/// A version of an image that was removed, and that no other image is ever to have: the document
/// `removed-images/NAME/VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedImage {
    pub id: ImageId,
    /// When it was removed.
    pub at: Timestamp,
}

/// Name and version of an image; written `NAME/VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageId {
    /// Name of the operating system.
    pub name: Word,
    pub version: Word,
}

/// A text that is no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageIdError {
    /// It has no version.
    #[error("`{0}` names no image: expected NAME/VERSION")]
    Form(String),
    /// A part is no word.
    #[error(transparent)]
    Part(#[from] NameError),
}

impl FromStr for ImageId {
    type Err = ImageIdError;

    fn from_str(text: &str) -> Result<Self, ImageIdError> {
        let form = || ImageIdError::Form(text.chars().take(TOLD_MAX).collect());
        let (name, version) = text.split_once('/').ok_or_else(form)?;
        Ok(Self { name: name.parse()?, version: version.parse()? })
    }
}

crate::text_form!(ImageId);

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}

/// The files that a machine loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ImageFiles {
    /// A unified kernel image: an EFI program that holds kernel, initial file system and parameters.
    Uki(Blob),
    /// A kernel and its initial file systems.
    Linux {
        /// The kernel, an EFI program.
        kernel: Blob,
        /// The initial file systems, in this order.
        initrds: Vec<Blob>,
    },
    /// A whole disk, raw or qcow2, of which instances are made. No machine boots it.
    Disk(Blob),
}

impl ImageFiles {
    /// All of its files.
    pub fn blobs(&self) -> impl Iterator<Item = Blob> {
        let (first, rest) = match self {
            Self::Uki(one) | Self::Disk(one) => (*one, [].as_slice()),
            Self::Linux { kernel, initrds } => (*kernel, initrds.as_slice()),
        };
        std::iter::once(first).chain(rest.iter().copied())
    }
}

/// One kernel parameter: printable ASCII. Blanks stand within double quotes alone, as a kernel reads them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Parameter(String);

/// A text that is no kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no kernel parameter: {why}")]
pub struct ParameterError {
    /// The text, as far as it is repeated.
    text: String,
    why: &'static str,
}

impl Parameter {
    /// The parameter.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parameters of a command line, which blanks separate.
    ///
    /// # Errors
    /// One of them is none.
    pub fn split(line: &str) -> Result<Vec<Self>, ParameterError> {
        let mut is_quoted = false;
        let words = line.split(|c: char| {
            is_quoted ^= c == '"';
            c.is_ascii_whitespace() && !is_quoted
        });
        words.filter(|word| !word.is_empty()).map(str::parse).collect()
    }
}

fn why_no_parameter(text: &str) -> Option<&'static str> {
    let mut is_quoted = false;
    let is_apart = |byte: u8| {
        is_quoted ^= byte == b'"';
        byte == b' ' && !is_quoted
    };
    if text.is_empty() || text.len() > PARAMETER_BYTES_MAX {
        Some("expected 1 to 512 characters")
    } else if !text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        Some("expected printable ASCII characters")
    } else if text.contains("${") {
        Some("iPXE, which loads the kernel, reads `${` as the name of a setting of its own")
    } else if text.bytes().any(is_apart) {
        Some(
            "a blank stands within double quotes alone, as in `a=\"b c\"`; give each parameter by itself",
        )
    } else if is_quoted {
        Some("a double quote has no second one, and would take in what follows")
    } else {
        None
    }
}

impl FromStr for Parameter {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        match why_no_parameter(text) {
            None => Ok(Self(text.to_owned())),
            Some(why) => Err(ParameterError { text: text.chars().take(TOLD_MAX).collect(), why }),
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

crate::text_form!(Parameter);

/// The boot target of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum BootTarget {
    /// The next choice of its firmware, as a rule its disk.
    #[default]
    Local,
    /// An image; the newest version that was uploaded, where none is named.
    Image {
        /// Name of the operating system.
        name: Word,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<Word>,
    },
}

impl BootTarget {
    /// Whether it boots what its firmware has next.
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::Local)
    }

    /// The name of the image that it boots.
    pub const fn image(&self) -> Option<&Word> {
        match self {
            Self::Local => None,
            Self::Image { name, .. } => Some(name),
        }
    }
}

impl FromStr for BootTarget {
    type Err = ImageIdError;

    fn from_str(text: &str) -> Result<Self, ImageIdError> {
        Ok(match text.split_once('/') {
            None if text == "local" => Self::Local,
            None => Self::Image { name: text.parse()?, version: None },
            Some((name, version)) => {
                Self::Image { name: name.parse()?, version: Some(version.parse()?) }
            }
        })
    }
}

impl fmt::Display for BootTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Image { name, version: None } => write!(f, "{name}"),
            Self::Image { name, version: Some(version) } => write!(f, "{name}/{version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_targets_read_as_they_were_written() {
        for text in ["local", "debian", "debian/12.4"] {
            assert_eq!(text.parse::<BootTarget>().unwrap().to_string(), text);
        }
        assert_eq!("debian/12.4".parse::<ImageId>().unwrap().to_string(), "debian/12.4");
        for wrong in ["debian", "debian/", "/12", "a/b/c", "a/..", "a b/1", "a/1\n"] {
            assert!(wrong.parse::<ImageId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn parameters_are_what_a_kernel_takes_for_one() {
        for good in [
            "quiet",
            "console=ttyS0,115200n8",
            "root=UUID=12-ab",
            "ip=[fd00::1]:9",
            "url=http://h/preseed.cfg?host=a&b=c#d",
            "preseed/late_command=\"in-target sh -c 'a || b; c' # d\"",
            "dyndbg=\"file drivers/* +p;  module b\"",
            "a=$x|y<z>{w}(!)\\`",
            "---",
            "\"a b\"=c",
        ] {
            assert_eq!(good.parse::<Parameter>().unwrap().as_str(), good);
        }
        let long = "x".repeat(PARAMETER_BYTES_MAX + 1);
        for (wrong, why) in [
            ("", "1 to 512"),
            (&*long, "1 to 512"),
            ("a b", "within double quotes"),
            ("\"a\" b", "within double quotes"),
            ("a=\"b c", "no second one"),
            ("a\nb", "printable"),
            ("a=\"b\tc\"", "printable"),
            ("ä", "printable"),
            ("${net0/mac}", "iPXE"),
        ] {
            let error = wrong.parse::<Parameter>().unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn blanks_in_quotes_separate_no_parameters() {
        let split = |line: &str| -> Option<Vec<String>> {
            let words = Parameter::split(line).ok()?;
            Some(words.iter().map(|word| word.as_str().to_owned()).collect())
        };
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(split(" a  b=\"c  d\"\te\n"), words(&["a", "b=\"c  d\"", "e"]));
        assert_eq!((split(""), split("a \"b c")), (words(&[]), None));
    }
}
