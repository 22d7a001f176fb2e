"""torch.distributed: collectives of one process by gloo, in all call forms."""

import os
import tempfile
import warnings

import torch
import torch.distributed as dist
from attempts import attempt, mark

warnings.simplefilter("ignore")
path = os.path.join(tempfile.mkdtemp(), "store")
dist.init_process_group("gloo", init_method=f"file://{path}", rank=0, world_size=1)
x = torch.ones(2)
group = dist.group.WORLD

attempt("all_reduce", dist.all_reduce, x.clone())
attempt("all_reduce places", dist.all_reduce, x.clone(), dist.ReduceOp.MAX, group)
attempt(
    "all_reduce keywords",
    lambda: dist.all_reduce(tensor=x.clone(), op=dist.ReduceOp.SUM, group=None, async_op=False),
)
attempt("all_reduce async", lambda: dist.all_reduce(x.clone(), async_op=True).wait())
attempt("all_reduce failing", dist.all_reduce, "a")
attempt("all_reduce without", dist.all_reduce)
attempt("all_reduce_coalesced", dist.all_reduce_coalesced, [x.clone()])
attempt("broadcast", dist.broadcast, x.clone(), 0)
attempt("broadcast keywords", lambda: dist.broadcast(tensor=x.clone(), src=0, group=group))
attempt("broadcast failing", dist.broadcast, x.clone(), 7)
attempt("reduce", dist.reduce, x.clone(), 0)
attempt("reduce keywords", lambda: dist.reduce(x.clone(), dst=0, op=dist.ReduceOp.SUM))
attempt("all_gather", dist.all_gather, [x.clone()], x)
attempt("all_gather keywords", lambda: dist.all_gather(tensor_list=[x.clone()], tensor=x))
attempt("all_gather_into_tensor", dist.all_gather_into_tensor, torch.empty(2), x)
attempt("all_gather_object", lambda: dist.all_gather_object([None], {"a": 1}))
attempt("gather", dist.gather, x, [x.clone()])
attempt("gather keywords", lambda: dist.gather(tensor=x, gather_list=[x.clone()], dst=0))
attempt("scatter", dist.scatter, x.clone(), [x])
attempt("scatter keywords", lambda: dist.scatter(tensor=x.clone(), scatter_list=[x], src=0))
attempt("reduce_scatter", dist.reduce_scatter, x.clone(), [x])
attempt("reduce_scatter_tensor", dist.reduce_scatter_tensor, x.clone(), x)
attempt("all_to_all", dist.all_to_all, [x.clone()], [x])
attempt("all_to_all_single", dist.all_to_all_single, x.clone(), x)
attempt(
    "all_to_all_single keywords",
    lambda: dist.all_to_all_single(
        output=x.clone(), input=x, output_split_sizes=[2], input_split_sizes=[2]
    ),
)
attempt("barrier", dist.barrier)
attempt("barrier keywords", lambda: dist.barrier(group=group, async_op=False))
attempt("monitored_barrier", dist.monitored_barrier)
attempt("send to itself", dist.send, x, 0)
attempt("isend to itself", dist.isend, x, dst=0)
attempt("recv from itself", dist.recv, x, 0)
attempt("irecv from itself", dist.irecv, x, src=0)
attempt("broadcast_object_list", dist.broadcast_object_list, [1, "a"])
attempt("gather_object", lambda: dist.gather_object({"a": 1}, [None]))
attempt("new_group", lambda: dist.all_reduce(x.clone(), group=dist.new_group([0])))
attempt("rank", lambda: (dist.get_rank(), dist.get_world_size(), dist.is_initialized()))
attempt(
    "functional all_reduce", lambda: dist._functional_collectives.all_reduce(x, "sum", group) + 1
)
attempt("nn", lambda: __import__("torch.distributed.nn").distributed.nn.all_reduce(x.clone()))


def data_parallel():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    model(torch.ones(3, 2)).sum().backward()
    dist.barrier()  # Gloo's threads may still hold Python objects of backward


attempt("DistributedDataParallel", data_parallel)
attempt("destroy", dist.destroy_process_group)
mark("end of distributed")
