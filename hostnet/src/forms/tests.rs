use proptest::prelude::*;

use super::from_any_form;
use crate::plan::random::network;
use crate::{Format, render};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A network that is written for another program means the same when it is read from its files.
    #[test]
    fn what_is_written_is_read_back_alike(bytes in prop::collection::vec(any::<u8>(), 90)) {
        let Some(network) = network(&bytes) else { return Ok(()) };
        // A file that says nothing is refused.
        if network.links.is_empty() && network.rules.is_empty() {
            return Ok(());
        }
        for format in [Format::Netplan, Format::Nmstate, Format::OsNetConfig] {
            let Ok(files) = render(format, &network, None) else { continue };
            let [file, ..] = files.as_slice() else { panic!("{format:?} has no file") };
            let read = from_any_form(&file.content);
            let read = read.unwrap_or_else(|why| panic!("{format:?}: {why}\n{}", file.content));
            prop_assert!(read.network.means(&network), "{format:?}\n{}\n{:#?}", file.content, network);
        }
    }
}
