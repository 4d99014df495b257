// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IBreaker} from "../src/interfaces/IBreaker.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {Guardian} from "../src/governance/Guardian.sol";
import {Ledger} from "../src/stake/Ledger.sol";
import {Params} from "../src/governance/Params.sol";
import {Registry} from "../src/stake/Registry.sol";
import {StakeVault} from "../src/stake/StakeVault.sol";
import {Charter} from "../src/governance/Charter.sol";
import {IFeeMarket} from "../src/interfaces/IFeeMarket.sol";

/// @title Every restricted function and the role that design and operating notes give it
library Duties {
    struct Duty {
        address target;
        bytes4 selector;
        uint64 role;
    }

    function governed(
        Params params,
        Guardian guardian,
        Ledger ledger,
        StakeVault vault,
        address registry,
        address breaker
    ) internal pure returns (Charter.Governed memory) {
        return Charter.Governed({
            params: address(params),
            guardian: address(guardian),
            ledger: address(ledger),
            vault: address(vault),
            registry: registry,
            keyEpochs: address(0x4E),
            feeMarket: address(0xFEE),
            breaker: breaker
        });
    }

    function duties(Charter.Governed memory g) internal pure returns (Duty[] memory d) {
        d = new Duty[](21);
        d[0] = Duty(g.params, Params.set.selector, 1);
        d[1] = Duty(g.ledger, Ledger.setMover.selector, 2);
        d[2] = Duty(g.ledger, Ledger.setSource.selector, 2);
        d[3] = Duty(g.vault, bytes4(keccak256("setMover(address,bool)")), 2);
        d[4] = Duty(g.registry, Registry.setCourt.selector, 2);
        d[5] = Duty(g.feeMarket, IFeeMarket.setLimits.selector, 3);
        d[6] = Duty(g.guardian, Guardian.pause.selector, 4);
        d[7] = Duty(g.guardian, Guardian.unpause.selector, 4);
        d[8] = Duty(g.guardian, Guardian.refund.selector, 4);
        d[9] = Duty(g.keyEpochs, IKeyEpochs.compromise.selector, 4);
        d[10] = Duty(g.keyEpochs, IKeyEpochs.openEpoch.selector, 5);
        d[11] = Duty(g.keyEpochs, IKeyEpochs.activate.selector, 5);
        d[12] = Duty(g.keyEpochs, IKeyEpochs.drain.selector, 5);
        d[13] = Duty(g.keyEpochs, IKeyEpochs.retire.selector, 5);
        d[14] = Duty(g.breaker, IBreaker.resetBreaker.selector, 5);
        d[15] = Duty(g.registry, Registry.activate.selector, 5);
        d[16] = Duty(g.registry, Registry.close.selector, 5);
        d[17] = Duty(g.registry, Registry.propose.selector, 5);
        d[18] = Duty(g.registry, bytes4(keccak256("setMeasurement(bytes32,bool)")), 5);
        d[19] = Duty(g.registry, Registry.setPolicy.selector, 5);
        d[20] = Duty(g.registry, Registry.readmit.selector, 5);
    }
}
