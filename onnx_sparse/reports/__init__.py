"""Reports: what became of a model, as one page without requests. `dagre.min.js` lays its pictures out.

dagre 3.1.3 (github.com/dagrejs/dagre, MIT, see `dagre.LICENSE`) also draws netron's graphs. It adds 48 KiB to a page.
On two busy processors, it places 150 nodes in 0.6 s. ELK takes 1.4 s and adds 1.6 MiB; Graphviz as WebAssembly takes
0.1 s and adds 1.3 MiB. Folded scopes keep pictures small enough for dagre. A layout computed in Python could not be
unfolded.
"""
