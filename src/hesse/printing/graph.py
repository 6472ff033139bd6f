class Graph: pass
