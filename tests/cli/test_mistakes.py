"""Mistakes on the command line: each gets one line that names what is wrong and the way out, and nothing is done."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_sparse.cli import demo, main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sources of the demo, its model, and files that are not what their names say."""
    made = tmp_path_factory.mktemp("mistakes")
    shutil.copytree(Path(demo.__file__).parent / "demo_sources", made, dirs_exist_ok=True)
    shutil.copytree(Path(demo.__file__).parent / "demo_saved_model", made / "saved_model")
    shutil.copytree(made / "saved_model", made / "exported")
    assert main(["convert", str(made / "saved_model"), "-o", str(made / "m.onnx")]) == 0
    rows = {"rows": 'basket,items\n0,"[1, 2]"\n', "far": 'items\n"[1, 900]"\n', "words": 'items\n"[1, x]"\n'}
    for name, text in {**rows, "other": "a,b\n1,2\n", "flat": "items\n7\n"}.items():
        (made / f"{name}.csv").write_text(text)
    (made / "cut.jsonl").write_text('{"items": [1]}\n{"items": ')
    for suffix in ("txt", "pb", "pt2", "xml", "json", "meta", "air", "parquet", "npz"):
        (made / f"text.{suffix}").write_text("x")
    (made / "empty.onnx").touch()
    (made / "empty.csv").touch()
    for name in ("only.bin", "apart.onnx", "apart.onnx.data", "together.onnx", "together.data", "module.pt"):
        (made / name).touch()
    for name in ("module.safetensors", "pytorch_model.bin", "exported/fingerprint.pb", "points/checkpoint"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).touch()
    (made / "nothing").mkdir()
    np.save(made / "pickled.npy", np.array([{}], object))
    np.save(made / "square.npy", np.zeros((3, 3), np.float32))
    np.savez(made / "part.npz", items=np.array([1]))
    inputs = {"indices": np.zeros((1, 2), np.int64), "shape": np.array([1, 1])}
    np.savez(made / "floats.npz", items=np.array([1.5]), **inputs)
    np.savez(made / "ranks.npz", items=np.array([[1]]), **inputs)
    weights = numpy_helper.from_array(np.zeros(6, np.float32), "w")
    node = helper.make_node("Identity", ["w"], ["y"])
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6])], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, made / "lost.onnx", save_as_external_data=True, location="gone.bin", size_threshold=0)
    (made / "gone.bin").unlink()
    return made


#: The command, its status, and what its error has, in this order.
MISTAKES = r"""
2 | '' | there is no command '' | --help
2 | convrt saved_model -o o.onnx | there is no command convrt | did you mean convert?
2 | help nope | there is no command nope | --help
2 | -x | unrecognized arguments: -x | --help
2 | --nope | unrecognized arguments: --nope | --help
2 | --debug | required: COMMAND | --help
2 | convert | required: SRC, -o/--output | --help
2 | convert saved_model | required: -o/--output | --help
2 | convert saved_model -o | argument -o/--output: expected one argument | --help
2 | convert saved_model model.xml -o o.onnx | unrecognized arguments: model.xml | --help
2 | convert saved_model -o o.onnx --verfy | --verfy | did you mean --verify?
2 | convert saved_model -o '' | --output: expected a path, got ''
2 | convert saved_model -o s3://b/o.onnx | s3://b/o.onnx is an address | pass a local path
2 | convert https://h/m.onnx -o o.onnx | https://h/m.onnx is an address | download
2 | convert saved_model -o o.pb | cannot write o.pb | .onnx
1 | convert saved_model -o no/o.onnx | cannot write no/o.onnx | no directory
1 | convert saved_model -o m.onnx/o.onnx | cannot write m.onnx/o.onnx | no directory
1 | convert saved_modle -o o.onnx | saved_modle: no such file or directory
1 | convert nothing -o o.onnx | nothing is not a SavedModel | saved_model.pb
2 | convert rows.csv -o o.onnx | cannot tell the format of rows.csv | --from
2 | convert only.bin -o o.onnx | cannot tell the format of only.bin | --from
1 | convert model.bin -o o.onnx | model.bin has the constants of an IR | give its graph, model.xml
1 | convert part.npz -o o.onnx | part.npz has arrays without a graph | give the model that they belong to
1 | convert apart.onnx.data -o o.onnx | has the external data of a model | give its graph, apart.onnx
1 | convert together.data -o o.onnx | has the external data of a model | give its graph, together.onnx
1 | convert exported/variables -o o.onnx | belongs to a SavedModel | give its directory, exported
1 | convert exported/variables/variables.index -o o.onnx | belongs to a SavedModel | its directory, exported
1 | convert exported/fingerprint.pb -o o.onnx | belongs to a SavedModel | give its directory, exported
1 | convert points/checkpoint -o o.onnx | points is a folder of checkpoints | the SavedModel
1 | convert module.pt -o o.onnx | module.pt has weights or a pickled module | torch.export.save | .pt2
1 | convert module.safetensors -o o.onnx | module.safetensors has weights | torch.export.save
1 | convert pytorch_model.bin -o o.onnx | pytorch_model.bin has weights | torch.export.save
1 | convert saved_model/saved_model.pb -o o.onnx | belongs to a SavedModel | give its directory, saved_model
1 | convert saved_model -o o.onnx --from torch | saved_model cannot be read: Is a directory
1 | convert saved_model -o o.onnx --from onnx | saved_model is a directory | `onnx-sparse convert saved_model
1 | convert model.xml -o o.onnx --from onnx | model.xml is not an ONNX model | `onnx-sparse convert model.xml
1 | convert layer.json -o o.onnx --from tensorflow | layer.json is not a SavedModel directory
2 | convert saved_model -o o.onnx --from keras | --from | 'keras' | 'tensorflow'
1 | convert saved_model -o o.onnx --signature nope | no signature 'nope' | it has serving_default
1 | convert saved_model -o o.onnx --tag nope | tag 'nope' | the tags are: serve
1 | convert saved_model -o o.onnx --function nope | no function named 'nope' | there is add_up
1 | convert saved_model -o o.onnx --function a --signature b | a signature or a function, not both
1 | convert saved_model -o o.onnx --inputs nope:0 | no input named 'nope:0' | there is indices, items, shape
1 | convert saved_model -o o.onnx --outputs nope:0 | no output named 'nope:0' | there is totals, was_empty
2 | convert saved_model -o o.onnx --opset abc | --opset | 'abc' | --help
2 | convert saved_model -o o.onnx --opset 3 | --opset 3 | from 18 on
2 | convert saved_model -o o.onnx --opset 99 | --opset 99 | at most
2 | convert saved_model -o o.onnx --tables int7 | 'int7' | did you mean int8?
2 | convert saved_model -o o.onnx --lower --portable | --portable: not allowed with argument --lower
2 | convert saved_model -o o.onnx --external-data --one-file | --one-file: not allowed with argument --external-data
2 | convert saved_model -o o.onnx --atol 1 | --atol is for a verification | --verify
2 | convert saved_model -o o.onnx --verify --atol -1 | --atol -1.0 | from 0 on
2 | convert saved_model -o o.onnx --verify --max-different 1.5 | --max-different | '1.5' | --help
1 | convert saved_model -o o.onnx --verify-with no.npz | no.npz: no such file
1 | convert saved_model -o o.onnx --verify-with nope=3 | no input nope | its features are items
2 | convert saved_model -o o.onnx --verify-with rows.csv | --verify-with rows.csv | expected FILE.npz
2 | convert saved_model -o o.onnx --fuse | --fuse is for ONNX files | tensorflow
2 | convert saved_model -o o.onnx --no-run | --no-run is for torch's programs | tensorflow
2 | convert m.onnx -o o.onnx --tag x | --tag is for TensorFlow's models | onnx
1 | convert saved_model -o o.onnx --import no_such_module | --import no_such_module | No module named
1 | convert saved_model -o o.onnx --lookup-table a=no.npz | no.npz: no such file
2 | convert saved_model -o o.onnx --report o.pdf | cannot write o.pdf | .html
2 | convert saved_model -o o.onnx --write-inputs o.txt | cannot write o.txt | .json or .npz
2 | convert by_torch.onnx -o o.onnx --repair-scatter add | --repair-scatter is for --fuse
1 | convert by_torch.onnx -o o.onnx --fuse --repair-scatter adding | 'adding' | add, mul, max, min, mean
1 | convert model.xml -o o.onnx --weights no.bin | no.bin | No such file or directory
1 | convert layer.json -o o.onnx | the inputs x | --input-spec x:float16:2,3
1 | convert layer.json -o o.onnx --input-spec x:float17:2,3 | 'x:float17:2,3' | such as float16
1 | convert layer.json -o o.onnx --input-spec y:float16:2,3 | no input y | its inputs are x
2 | convert layer.json -o o.onnx --verify | not for Ascend's graphs | onnx-sparse replay
1 | convert layer.json -o o.onnx --tensors no | no: no such file or directory
1 | convert export.air -o o.onnx --tensors no | no: no such file or directory
1 | convert empty.onnx -o o.onnx | empty.onnx is not an ONNX model | no graph
1 | convert text.pb -o o.onnx | text.pb holds no GraphDef | damaged, cut short
1 | convert text.pt2 -o o.onnx | text.pt2 cannot be read as an ExportedProgram
1 | convert text.xml -o o.onnx | text.xml is not well-formed XML | line 1
1 | convert text.json -o o.onnx | text.json is not JSON | line 1
1 | convert text.meta -o o.onnx | text.meta holds no MetaGraphDef
1 | convert text.air -o o.onnx | text.air is not a graph of GE
1 | convert lost.onnx -o o.onnx | the data of tensor 'w' are in gone.bin, which is missing | copy it there
2 | run | required: MODEL | --help
1 | run no.onnx | no.onnx: no such file
1 | run rows.csv | rows.csv is not an ONNX model
1 | run saved_model | saved_model is a directory | `onnx-sparse convert saved_model -o model.onnx`
1 | run lost.onnx | the data of tensor 'w' are in | gone.bin, which is missing | copy it there
1 | run m.onnx | feature items not given | rows are JSON
1 | run m.onnx -i nope=3 | no input nope | its features are items
1 | run m.onnx -i no.npz | no.npz: no such file
2 | run m.onnx -i rows.csv | --input rows.csv | expected FILE.npz, FILE.json, NAME=FILE or NAME=JSON
2 | run m.onnx -i https://h/x.npz | https://h/x.npz is an address | pass a local path
2 | run m.onnx -i items=https://h/x.npy | https://h/x.npy is an address | pass a local path
2 | run m.onnx -i items= | --input items=: '' is neither a file nor JSON
2 | run m.onnx -i items=hello | hello is neither a file nor JSON
2 | run m.onnx -i 'items=[[1' | [[1 is neither a file nor JSON | column 4
2 | run m.onnx -i items=rows.csv | rows.csv is not a .npy file | `onnx-sparse score` reads files of rows
2 | run m.onnx -i items=[[1]] -i items=[[2]] | input items is given twice
1 | run m.onnx -i items=3 | feature 'items': expected a list of rows, got 3
1 | run m.onnx -i items=[1,2] | feature 'items', row 0: expected a list, got 1
1 | run m.onnx -i 'items=[["a"]]' | feature 'items', row 0, position 0: 'a' | int64
1 | run m.onnx -i items=[[1.5]] | row 0, position 0: 1.5 does not fit into int64
1 | run m.onnx -i items=[[99999999999999999999]] | 99999999999999999999 does not fit into int64
1 | run m.onnx -i items=[[null]] | row 0, position 0 has no value
1 | run m.onnx -i items=[[500]] | indices[0] = 500 is out of range [0, 4)
1 | run m.onnx -i items=pickled.npy | pickled.npy is a pickle | np.save
1 | run m.onnx -i part.npz | inputs indices, shape not given
1 | run m.onnx -i floats.npz | input items is float64; the model expects int64 | array.astype(np.int64)
1 | run m.onnx -i ranks.npz | input items has shape [1, 1]; the model expects int64[items_0]
2 | run m.onnx -i items=[[1]] -o o.csv | cannot write o.csv | .npz
2 | run m.onnx -i items=[[1]] --outputs x | --outputs | did you mean --output?
2 | run m.onnx -i items=[[1]] --then items=[[1]] | m.onnx records no states | run it once for each input
2 | run m.onnx --backend cuda | 'cuda' | 'native'
2 | score m.onnx -o out | required: ROWS | --help
2 | score m.onnx rows.csv | required: -o/--output | --help
2 | score m.onnx rows.csv -o '' | expected a path, got ''
2 | score m.onnx '' -o out | expected a path, got ''
2 | score m.onnx https://h/rows.csv -o out | https://h/rows.csv | pass a local path, or the address of a store
2 | score m.onnx rows.csv -o https://h/out | https://h/out | pass a local path, or the address of a store
1 | score m.onnx no.csv -o out | no.csv: no such file
1 | score m.onnx 'no/*.csv' -o out | no/*.csv: no such file
1 | score m.onnx nothing -o out | nothing has no files
1 | score m.onnx saved_model -o out | saved_model has no files of rows, but saved_model.pb
1 | score m.onnx text.npz -o out | text.npz: expected a name that ends in .parquet
1 | score rows.csv m.onnx -o out | rows.csv is not an ONNX model
2 | score m.onnx rows.csv -o out.xlsx | -o out.xlsx: scores are Parquet, CSV or JSON files | out.parquet
2 | score m.onnx rows.csv -o rows.csv | rows.csv would be replaced by its scores | another folder
1 | score m.onnx rows.csv -o text.txt/out | cannot write text.txt/out: it is not a folder
2 | score m.onnx rows.csv far.csv -o out.csv | -o out.csv is one file, and there are 2 files of rows | a folder
2 | score m.onnx rows.csv -o out --columns nope=items | no feature nope | it has items
2 | score m.onnx rows.csv -o out --columns items | 'items' is not FEATURE=COLUMN
2 | score m.onnx rows.csv -o out --csv-delimiter ab | 'ab' is not one character
2 | score m.onnx rows.csv -o out --workers 0 | --workers: 0 is not positive | --help
2 | score m.onnx rows.csv -o out --batch-rows 1e3 | '1e3' is not a whole number | --help
2 | score m.onnx rows.csv -o out --max-bad-rows 200% | 200% is more than 100% of the rows | --help
2 | score m.onnx rows.csv -o out --max-bad-rows x | 'x' is neither a number of rows nor a percentage
2 | score m.onnx rows.csv -o out --resume --overwrite | --overwrite: not allowed with argument --resume
2 | score m.onnx rows.csv -o out --keep basket --column-type basket=int65 | no such type | int64
1 | score m.onnx rows.csv -o out --keep nope | no column 'nope' to keep | columns are 'basket', 'items'
1 | score m.onnx rows.csv -o out --outputs nope | no output 'nope' | it has 'totals', 'was_empty'
1 | score m.onnx other.csv -o out | no column 'items' | columns are 'a', 'b'
1 | score m.onnx flat.csv -o out | column 'items', row 0: expected a list, as [5, 7] in JSON, got '7'
1 | score m.onnx words.csv -o out | words.csv, column 'items', row 0 | '[1, x]'
1 | score m.onnx far.csv -o out | far.csv, row 0, column 'items' | indices[1] = 900 is out of range [0, 4)
1 | score m.onnx cut.jsonl -o out | cut.jsonl, line 2 is not JSON
1 | score m.onnx text.parquet -o out | text.parquet cannot be read
2 | serve | required: [NAME=]MODEL | --help
1 | serve no.onnx | no.onnx: no such file
1 | serve saved_model | saved_model is a directory | `onnx-sparse convert saved_model -o model.onnx`
1 | serve lost.onnx --check | the data of tensor 'w' are in | gone.bin, which is missing | copy it there
2 | serve m.onnx --port 99999 | --port 99999 | 0 to 65535
2 | serve m.onnx --port abc | --port | 'abc' | --help
2 | serve m.onnx --port 8099 --grpc-port 8099 | --port and --grpc-port are both 8099 | a port of its own
2 | serve m.onnx --host '' | --host '' | 127.0.0.1
2 | serve m.onnx --workers 0 | --workers 0 | at least 1
2 | serve m.onnx --run-timeout inf | --run-timeout inf | at least 0 expected, and less than 2^31
2 | serve m.onnx m.onnx | two models have the name m | NAME=MODEL
2 | serve a/b=m.onnx | 'a/b' cannot be the name of a model | NAME=m.onnx
2 | benchmark m.onnx --batch-sizes 1,,2 | '1,,2' is not a comma-separated list of positive numbers | --help
2 | benchmark m.onnx --seconds nan | 'nan' is not a positive number of seconds | --help
2 | benchmark m.onnx --seed -1 | --seed: '-1' is not a whole number from 0 on | --help
2 | benchmark m.onnx --svg o.png | cannot write o.png | .svg
2 | benchmark m.onnx --signature a | --signature: only a SavedModel has that
2 | benchmark m.onnx --source rows.csv | cannot tell the format of rows.csv | `onnx-sparse convert --help`
1 | report m.onnx -o o.html --source no | no: no such file or directory
2 | report m.onnx -o o.txt | cannot write o.txt | .html
1 | replay no | no: no such directory
1 | replay layer.json | layer.json is a file | give the dump's folder
1 | replay nothing | nothing is not a dump of ATB | layer/<pid>
1 | replay msit_dump_20260101_120000 --layer nope | no tensors of nope | its graphs are Layer_0
2 | replay msit_dump_20260101_120000 --tolerance -1 | '-1' is not a number >= 0 | --help
2 | replay msit_dump_20260101_120000 -o o.txt | cannot write o.txt | .csv or .json or .xlsx
2 | check m.onnx by_torch.onnx | unrecognized arguments: by_torch.onnx | --help
1 | check model.xml | model.xml is not an ONNX model | `onnx-sparse convert model.xml -o model.onnx`
1 | inspect saved_model | saved_model is a directory | `onnx-sparse convert saved_model -o model.onnx`
2 | inspect m.onnx --jsn | --jsn | did you mean --json?
2 | tables m.onnx shwo | shwo is not one of show, update, compact, export, replace
1 | tables m.onnx show nope=1 | no table nope | its tables are table
1 | tables m.onnx show table=abc | the keys of table, row 0: 'abc' is text; the keys are int64
2 | tables m.onnx update | update needs NAME=FILE
1 | tables m.onnx update table=empty.csv | empty.csv is empty | row, values, deleted
1 | tables m.onnx update table=rows.csv | column 'basket' is not known | row, values, deleted
1 | tables m.onnx replace table=square.npy | square.npy is float32 [3, 3]; table table is float32 [4, 2]
2 | tables m.onnx export table=o.txt | cannot write o.txt | .parquet or .npz
2 | tables m.onnx -o o.onnx | --output is for replace
2 | shard m.onnx -o out --shards 0 | --shards: 0 is not positive | --help
2 | shard m.onnx -o out --shards 2 --at-least lots | 'lots' is not a number of bytes, such as 4096, 64M or 2G
1 | shard m.onnx -o out --shards 2 | no table that lookups read has 67,108,864 bytes | --at-least
1 | shard m.onnx -o saved_model --shards 2 --at-least 1 | saved_model is there already | give a new folder
1 | triton m.onnx -o text.txt | cannot write text.txt: it is not a directory
2 | triton m.onnx -o out --name a/b | 'a/b' cannot be the name of a model | --name
2 | triton m.onnx -o out --instances 0 | --instances 0 | at least 1
1 | ops nope | there is no operator nope | `onnx-sparse ops` lists all
1 | ops UnsortedSegment | there is no operator UnsortedSegment | did you mean UnsortedSegment
1 | ops Quant | there is no operator Quant | did you mean QuantizedEmbedding
2 | ops Fill MaskedFill | unrecognized arguments: MaskedFill | --help
2 | doctor now | unrecognized arguments: now | --help
2 | demo --all | --all keeps sources | --keep DIR
1 | demo --keep text.txt | cannot make the directory text.txt: File exists
2 | completion bsh | 'bsh' | did you mean bash?
""".strip().splitlines()


#: Mistakes that torch has to look at: without it, the line says that it is not installed.
OF_TORCH = {"convert saved_model -o o.onnx --from torch", "convert text.pt2 -o o.onnx"}


def files(folder):
    """The files by their times, and the folders."""
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in folder.rglob("*")}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.split(" | ")[1])
def test_a_mistake(cli, folder, monkeypatch, mistake):
    monkeypatch.chdir(folder)
    before = files(folder)
    status, command, *said = mistake.split(" | ")
    if command in OF_TORCH:
        pytest.importorskip("torch", exc_type=ImportError)
    result = cli(*shlex.split(command))
    assert result.code == int(status)
    first, *others = [line for line in result.err.splitlines() if not line.startswith("onnx-sparse: loading")]
    assert first.startswith("onnx-sparse")
    assert ": error: " in first
    assert len(others) <= 2
    assert all(line.startswith(("  did you mean ", "  `onnx-sparse ")) for line in others)
    assert not [word for word in ("unexpected", "Errno", ".cc:", "ONNXRuntimeError") if word in result.err]
    place = 0
    for part in said:
        assert part in result.err[place:]
        place = result.err.index(part, place) + len(part)
    assert files(folder) == before
