# SPDX-License-Identifier: MIT
"""Learning: outcomes imported, policies taken through them, valued, explained, and exported as rules.

from pathlib import Path
from configtron.service import learning

db = Path("outcomes.db")
with open("outcomes.jsonl", "rb") as file:
    learning.import_file(file, "outcomes.jsonl", learning.ImportOptions(db))
print(learning.run(learning.LearnOptions(db)).learned)
print(learning.export(learning.ExportOptions(db)).made.losses)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from configtron.service.lazily import lazily

if TYPE_CHECKING:
    from configtron.service.learning.evaluating import CandidateValue, EvaluateOptions, evaluate
    from configtron.service.learning.explaining import Explained, ExplainOptions, explain
    from configtron.service.learning.exporting import Exported, ExportOptions, export
    from configtron.service.learning.importing import Imported, import_file
    from configtron.service.learning.initial import (
        HitOptions,
        InitialOptions,
        InitialTraining,
        InitialWindows,
        WindowsOptions,
        evaluate_initial,
        predict_initial,
        train_initial,
    )
    from configtron.service.learning.knobs import KnobEffects, knobs_of_policy, knobs_of_tensor
    from configtron.service.learning.learners import drop, restored_policy, saved
    from configtron.service.learning.lessons import LearnResult, PolicyOptions
    from configtron.service.learning.measuring import Measurement, MeasureOptions, MeasureProgress, fill
    from configtron.service.learning.overview import Status, status
    from configtron.service.learning.running import LearnOptions, run
    from configtron.service.learning.sources import ImportOptions
    from configtron.studies.indigo.training import IndigoOptions, IndigoTrained, show_indigo, train_indigo

__all__ = [
    "CandidateValue", "EvaluateOptions", "ExplainOptions", "Explained", "ExportOptions", "Exported", "ImportOptions",
    "Imported", "KnobEffects", "LearnOptions", "PolicyOptions", "MeasureOptions", "MeasureProgress", "Measurement",
    "Status", "LearnResult", "drop", "evaluate", "explain", "export", "fill", "import_file", "knobs_of_policy",
    "knobs_of_tensor", "restored_policy", "run", "saved", "status", "HitOptions", "InitialOptions", "InitialTraining",
    "InitialWindows", "WindowsOptions", "evaluate_initial", "predict_initial", "train_initial",
    "IndigoOptions", "IndigoTrained", "show_indigo", "train_indigo",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("CandidateValue", "EvaluateOptions", "evaluate"), "evaluating"),
            **dict.fromkeys(("Explained", "ExplainOptions", "explain"), "explaining"),
            **dict.fromkeys(("Exported", "ExportOptions", "export"), "exporting"),
            **dict.fromkeys(("Imported", "import_file"), "importing"),
            **dict.fromkeys(
                ("IndigoOptions", "IndigoTrained", "show_indigo", "train_indigo"), "configtron.studies.indigo.training"
            ),
            **dict.fromkeys(
                (
                    "HitOptions",
                    "InitialOptions",
                    "InitialTraining",
                    "InitialWindows",
                    "WindowsOptions",
                    "evaluate_initial",
                    "predict_initial",
                    "train_initial",
                ),
                "initial",
            ),  # fmt: skip
            **dict.fromkeys(("KnobEffects", "knobs_of_policy", "knobs_of_tensor"), "knobs"),
            **dict.fromkeys(("drop", "restored_policy", "saved"), "learners"),
            **dict.fromkeys(("LearnResult", "PolicyOptions"), "lessons"),
            **dict.fromkeys(("MeasureOptions", "MeasureProgress", "Measurement", "fill"), "measuring"),
            **dict.fromkeys(("Status", "status"), "overview"),
            **dict.fromkeys(("LearnOptions", "run"), "running"),
            "ImportOptions": "sources",
        },
    )
