// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IBallots} from "./IBallots.sol";
import {IProceedings} from "./IProceedings.sol";

/// @title IDisputes: a receipt is questioned, a committee re-executes, a verdict is found (design section 9)
/// @notice The phase table is in `docs/protocol.md` and `bytewise/protocol/phases.py`; money is `ISettlement`'s. All times are
///         of the protocol clock. Every step but commit and reveal may be taken by anyone, so no dispute waits for a party.
///         A round is one drawn committee, counted from 1; its level says how large it is. A rerun is a new round of the same
///         level, because nobody got the key. Parameters are those in force when the receipt was anchored.
/// @dev One address, two contracts, because of the size limit of EIP-170: `Disputes` holds everything and answers `IBallots`
///      itself; `IProceedings` it delegates to `Proceedings`, which it was deployed with and which never changes.
interface IDisputes is IProceedings, IBallots {}
