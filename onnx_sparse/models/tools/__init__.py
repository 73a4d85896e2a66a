"""onnx's tools, where they do not end the process.

`onnx_tools` calls them, some in a child process (`apart`), without the nodes that end it (`uninferable`). `opsets`,
`inlining` and `evaluator` use them.
"""
