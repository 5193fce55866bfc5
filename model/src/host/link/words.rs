//! Core: options of links that are one of a list of words.

/// One of a list of words, which the kernel knows by number.
pub trait Word: Copy + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// The word of files.
    fn word(self) -> &'static str;

    /// The number that the kernel has for it.
    fn number(self) -> u8;

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.word() == word)
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.number() == number)
    }

    /// Reads a word, as files have it.
    ///
    /// # Errors
    /// It is none of them.
    fn read(text: &str) -> Result<Self, String> {
        Self::from_word(text).ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|one| one.word()).collect();
            format!("`{}` is none of {}", text.escape_debug(), words.join(", "))
        })
    }

    /// Reads a word or its number, as the kernel's modules take both.
    ///
    /// # Errors
    /// It is none of them.
    fn read_or_number(text: &str) -> Result<Self, String> {
        let by_number = text.parse().ok().and_then(Self::from_number);
        by_number.map_or_else(|| Self::read(text), Ok)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal / $number:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$inner])* $variant,)+ }

        impl Word for $name {
            const ALL: &'static [Self] = &[$(Self::$variant,)+];

            fn word(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            fn number(self) -> u8 {
                match self { $(Self::$variant => $number,)+ }
            }
        }
    };
}

words! {
    /// How members of a bond share the work.
    BondMode {
        /// In turn.
        BalanceRr = "balance-rr" / 0,
        /// One works, the others wait.
        ActiveBackup = "active-backup" / 1,
        /// By a hash of the packet.
        BalanceXor = "balance-xor" / 2,
        /// All send everything.
        Broadcast = "broadcast" / 3,
        Lacp = "802.3ad" / 4,
        /// By load, when sending.
        BalanceTlb = "balance-tlb" / 5,
        /// By load.
        BalanceAlb = "balance-alb" / 6,
    }
}
words! {
    /// How often partners of 802.3ad speak.
    LacpRate {
        /// Every 30 s.
        Slow = "slow" / 0,
        /// Every second.
        Fast = "fast" / 1,
    }
}
words! {
    /// The fields of a packet that choose its member of the bond.
    HashPolicy {
        /// Ethernet addresses.
        Layer2 = "layer2" / 0,
        /// IP addresses and ports.
        Layer34 = "layer3+4" / 1,
        /// Ethernet and IP addresses.
        Layer23 = "layer2+3" / 2,
        /// As `layer2+3`, inside tunnels.
        Encap23 = "encap2+3" / 3,
        /// As `layer3+4`, inside tunnels.
        Encap34 = "encap3+4" / 4,
    }
}
words! {
    /// Which aggregator of 802.3ad a bond uses.
    AdSelect {
        /// The one that it has, until it fails.
        Stable = "stable" / 0,
        /// The fastest one.
        Bandwidth = "bandwidth" / 1,
        /// The one with the most members.
        Count = "count" / 2,
    }
}
words! {
    /// Which address a bond has when another member takes over.
    FailOverMac {
        /// All members have the bond's.
        None = "none" / 0,
        /// The bond has that of the member that works.
        Active = "active" / 1,
        /// The member that works has the bond's.
        Follow = "follow" / 2,
    }
}
words! {
    /// Who hears whom.
    MacvlanMode {
        /// Only the world outside.
        Private = "private" / 1,
        /// Each other, over the switch.
        Vepa = "vepa" / 2,
        /// Each other.
        Bridge = "bridge" / 4,
        /// One has the link alone.
        Passthru = "passthru" / 8,
    }
}
