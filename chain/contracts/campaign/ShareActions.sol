// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Shares} from "../src/keys/KeyShares.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {OtherActions} from "./OtherActions.sol";

/// @title An epoch's key is dealt again: with the word of some of those who have its shares and of some of those who get them
/// @dev Checks I32 VOUCHED.
abstract contract ShareActions is OtherActions {
    uint256 private constant MOST_HOLDERS = 6;

    /// @notice Who gets shares, and who of them and of those before signs for that, by bits.
    struct Deal {
        uint256 n;
        uint256 t;
        uint256 first;
        uint256 old;
        uint256 fresh;
    }

    /// @dev By governance most of the time, seldom by anybody.
    function deal(uint64 epoch, uint256 salt) internal {
        _know();
        salt = spread(salt);
        IKeyEpochs.Epoch memory e = epochs.epochInfo(epoch);
        Deal memory d = _drawn(salt);
        address by = rarely(salt) ? personAt(salt) : address(this);
        if (!may(by, address(epochs), 0, _dealing(epoch, e, d), "reshare")) return;
        that(by == address(this), "who deals keys");
        that(e.state < IKeyEpochs.EpochState.RETIRED, "a key moved after its end");
        that(ones(d.old & ((1 << e.shards.length) - 1)) >= e.threshold, "a key moved without who had its shares");
        _enough(d.fresh, d.n, d.t);
        same(epochs.epochInfo(epoch).version, e.version + 1, "version of the shares");
    }

    /// @dev Anybody shows who signed for the shares of a new epoch: most times everybody, else as chance has it.
    function confirm(uint64 epoch, uint256 salt) internal {
        _know();
        salt = spread(salt);
        IKeyEpochs.Epoch memory e = epochs.epochInfo(epoch);
        uint256 who = salt >> 24 & 3 != 0 ? 63 : (salt >> 40) % 64;
        bytes[] memory list = _words(e.shards, wordOf(epochs, epoch), who);
        bytes memory data = abi.encodeCall(epochs.confirm, (epoch, TRANSCRIPT, list));
        if (may(personAt(salt), address(epochs), 0, data, "confirm shares")) {
            _enough(who, e.shards.length, e.threshold);
        }
    }

    /// @dev Half way from the threshold to all, rounded down.
    function _enough(uint256 who, uint256 n, uint256 t) private pure {
        that(2 * ones(who & ((1 << n) - 1)) + 1 >= n + t, "shares in force without who has them");
    }

    /// @dev Everybody signs every other time, or chance would seldom find enough of both.
    function _drawn(uint256 salt) private pure returns (Deal memory d) {
        d.n = 1 + salt % 4;
        d.t = 1 + (salt >> 8) % d.n;
        d.first = (salt >> 16) % 3;
        d.old = salt >> 24 & 1 == 1 ? 63 : (salt >> 32) % 64;
        d.fresh = salt >> 25 & 1 == 1 ? 63 : (salt >> 40) % 64;
    }

    function _dealing(uint64 epoch, IKeyEpochs.Epoch memory e, Deal memory d) private view returns (bytes memory) {
        address[] memory shards = holders(d.n, d.first);
        bytes memory commitments = points(e.publicKey, d.t);
        bytes32 who = keccak256(abi.encodePacked(shards));
        bytes32 digest = epochs.hashShares(Shares(epoch, e.version + 1, keccak256(commitments), who, TRANSCRIPT));
        bytes[] memory list = _words(shards, digest, d.fresh);
        bytes[] memory consents = _words(e.shards, digest, d.old);
        return abi.encodeCall(epochs.reshare, (epoch, commitments, shards, uint8(d.t), TRANSCRIPT, list, consents));
    }

    function _words(address[] memory who, bytes32 digest, uint256 mask) private view returns (bytes[] memory list) {
        list = new bytes[](who.length);
        for (uint256 i = 0; i < who.length; ++i) {
            if ((mask >> i) & 1 == 1) list[i] = signed(secretOf[who[i]], digest);
        }
    }

    function _know() private {
        address[] memory all = holders(MOST_HOLDERS, 0);
        if (secretOf[all[0]] != 0) return;
        for (uint256 i = 0; i < MOST_HOLDERS; ++i) {
            secretOf[all[i]] = HOLDER_KEY + i;
        }
    }
}
