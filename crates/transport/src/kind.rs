//! The registered table of packet kinds. A kind means the same in every class and every layer; a new one is
//! added here and nowhere else.

/// A whole message of p2p; its payload is the message.
pub const EAGER: u8 = 1;
/// Request to send: announces a message that travels by rendezvous.
pub const RTS: u8 = 2;
/// Clear to send: the receiver has matched an RTS.
pub const CTS: u8 = 3;
/// A piece of a rendezvous message: its bytes, from the message's back on, or word that they are in the pipe, from its front on.
pub const DATA: u8 = 4;
/// A synchronous eager message has been matched.
pub const ACK: u8 = 5;
/// The sender gives up a message that it has announced.
pub const ABORT_SEND: u8 = 6;
/// A communicator has been revoked.
pub const REVOKE: u8 = 7;
/// The receiver has all data of a rendezvous message, or has read what was put into a pipe for it.
pub const FIN: u8 = 8;
/// A message that was announced, or is synchronous, is never received.
pub const CANCEL: u8 = 9;
/// The sender has finalized and sends nothing more.
pub const GOODBYE: u8 = 10;
/// Several short messages of p2p, each with its envelope before it.
pub const COALESCED: u8 = 11;
/// First kind free for tests and experiments; never registered.
pub const PRIVATE: u8 = 0xf0;

/// The table: every registered kind with its name.
pub const TABLE: &[(u8, &str)] = &[
    (EAGER, "EAGER"),
    (RTS, "RTS"),
    (CTS, "CTS"),
    (DATA, "DATA"),
    (ACK, "ACK"),
    (ABORT_SEND, "ABORT_SEND"),
    (REVOKE, "REVOKE"),
    (FIN, "FIN"),
    (CANCEL, "CANCEL"),
    (GOODBYE, "GOODBYE"),
    (COALESCED, "COALESCED"),
];

/// Name of a kind, for traces and messages; "unknown" when it isn't registered.
pub fn name(kind: u8) -> &'static str {
    TABLE.iter().find(|(k, _)| *k == kind).map_or("unknown", |(_, n)| n)
}

#[cfg(test)]
mod tests {
    #[test]
    fn kinds_are_unique_and_not_zero() {
        for (i, (kind, name)) in super::TABLE.iter().enumerate() {
            assert!(*kind != 0 && *kind < super::PRIVATE);
            assert!(super::TABLE.iter().skip(i + 1).all(|(k, n)| k != kind && n != name));
            assert_eq!(super::name(*kind), *name);
        }
        assert_eq!(super::name(0), "unknown");
    }
}
