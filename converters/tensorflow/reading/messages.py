"""TensorFlow's messages, as far as models are read from them, made by google.protobuf alone.

The wire numbers are TensorFlow's. The messages stand in a pool and a package of their own, because TensorFlow puts its
own into the default pool when it is imported into the same process.
"""

from __future__ import annotations

from onnx_sparse.models.data.message_classes import declare_messages

#: TensorFlow's element types by number.
_DATA_TYPES = """
INVALID=0 FLOAT=1 DOUBLE=2 INT32=3 UINT8=4 INT16=5 INT8=6 STRING=7 COMPLEX64=8 INT64=9 BOOL=10 QINT8=11 QUINT8=12
QINT32=13 BFLOAT16=14 QINT16=15 QUINT16=16 UINT16=17 COMPLEX128=18 HALF=19 RESOURCE=20 VARIANT=21 UINT32=22 UINT64=23
FLOAT8_E5M2=24 FLOAT8_E4M3FN=25 FLOAT8_E4M3FNUZ=26 FLOAT8_E4M3B11FNUZ=27 FLOAT8_E5M2FNUZ=28 INT4=29 UINT4=30 INT2=31
UINT2=32
"""

_DECLARATIONS = """
TensorShapeProto dim=2:Dim* unknown_rank=3:bool
Dim size=1:int64 name=2:string
TensorProto dtype=1:DataType tensor_shape=2:TensorShapeProto version_number=3:int32 tensor_content=4:bytes
  float_val=5:float* double_val=6:double* int_val=7:int32* string_val=8:bytes* scomplex_val=9:float* int64_val=10:int64*
  bool_val=11:bool* dcomplex_val=12:double* half_val=13:int32* uint32_val=16:uint32* uint64_val=17:uint64*
AttrValue |list=1:ListValue |s=2:bytes |i=3:int64 |f=4:float |b=5:bool |type=6:DataType |shape=7:TensorShapeProto
  |tensor=8:TensorProto |placeholder=9:string |func=10:NameAttrList
ListValue s=2:bytes* i=3:int64* f=4:float* b=5:bool* type=6:DataType* shape=7:TensorShapeProto* tensor=8:TensorProto*
  func=9:NameAttrList*
NameAttrList name=1:string attr=2:{AttrValue}
NodeDef name=1:string op=2:string input=3:string* device=4:string attr=5:{AttrValue}
OpDef name=1:string input_arg=2:ArgDef* output_arg=3:ArgDef* attr=4:AttrDef* is_stateful=17:bool
  control_output=20:string*
ArgDef name=1:string description=2:string type=3:DataType type_attr=4:string number_attr=5:string
  type_list_attr=6:string is_ref=16:bool
AttrDef name=1:string type=2:string default_value=3:AttrValue
FunctionDef signature=1:OpDef node_def=3:NodeDef* ret=4:{string} attr=5:{AttrValue} control_ret=6:{string}
  arg_attr=7:<ArgAttrs>
ArgAttrs attr=1:{AttrValue}
FunctionDefLibrary function=1:FunctionDef* gradient=2:GradientDef*
GradientDef function_name=1:string gradient_func=2:string
VersionDef producer=1:int32 min_consumer=2:int32 bad_consumers=3:int32*
GraphDef node=1:NodeDef* library=2:FunctionDefLibrary version=3:int32 versions=4:VersionDef
SavedModel saved_model_schema_version=1:int64 meta_graphs=2:MetaGraphDef*
MetaGraphDef meta_info_def=1:MetaInfoDef graph_def=2:GraphDef saver_def=3:SaverDef collection_def=4:{CollectionDef}
  signature_def=5:{SignatureDef} asset_file_def=6:AssetFileDef* object_graph_def=7:SavedObjectGraph
CollectionDef any_list=5:AnyList
AnyList value=1:Any*
Any type_url=1:string value=2:bytes
MetaInfoDef tags=4:string* tensorflow_version=5:string
SaverDef filename_tensor_name=1:string save_tensor_name=2:string restore_op_name=3:string
SignatureDef inputs=1:{TensorInfo} outputs=2:{TensorInfo} method_name=3:string defaults=4:{TensorProto}
TensorInfo |name=1:string dtype=2:DataType tensor_shape=3:TensorShapeProto |coo_sparse=4:CooSparse
  |composite_tensor=5:CompositeTensor
CooSparse values_tensor_name=1:string indices_tensor_name=2:string dense_shape_tensor_name=3:string
CompositeTensor components=2:TensorInfo*
AssetFileDef tensor_info=1:TensorInfo filename=2:string
SavedObjectGraph nodes=1:SavedObject* concrete_functions=2:{SavedConcreteFunction}
SavedObject children=1:ObjectReference* asset=5:SavedAsset function=6:SavedFunction variable=7:SavedVariable
  bare_concrete_function=8:SavedBareConcreteFunction constant=9:SavedConstant
ObjectReference node_id=1:int32 local_name=2:string
SavedAsset asset_file_def_index=1:int32
SavedVariable dtype=1:DataType shape=2:TensorShapeProto trainable=3:bool name=6:string
SavedConstant operation=1:string
SavedFunction concrete_functions=1:string*
SavedBareConcreteFunction concrete_function_name=1:string
SavedConcreteFunction bound_inputs=2:int32* canonicalized_input_signature=3:StructuredValue
  output_signature=4:StructuredValue
StructuredValue |int64_value=12:sint64 |tensor_shape_value=31:TensorShapeProto |tensor_spec_value=33:TensorSpecProto
  |type_spec_value=34:TypeSpecProto |list_value=51:Values
  |tuple_value=52:Values |dict_value=53:Fields |named_tuple_value=54:NamedTuple
Values values=1:StructuredValue*
Fields fields=1:{StructuredValue}
NamedTuple name=1:string values=2:Pair*
Pair key=1:string value=2:StructuredValue
TensorSpecProto name=1:string shape=2:TensorShapeProto dtype=3:DataType
TypeSpecProto type_spec_class=1:int32 type_state=2:StructuredValue type_spec_class_name=3:string
TrackableObjectGraph nodes=1:TrackableObject*
TrackableObject children=1:ObjectReference* attributes=2:SerializedTensor*
SerializedTensor name=1:string full_name=2:string checkpoint_key=3:string
BundleHeaderProto num_shards=1:int32 endianness=2:int32
BundleEntryProto dtype=1:DataType shape=2:TensorShapeProto shard_id=3:int32 offset=4:int64 size=5:int64 crc32c=6:fixed32
  slices=7:TensorSliceProto*
TensorSliceProto extent=1:Extent*
Extent start=1:int64 length=2:int64
"""

_NUMBERS = {name: int(number) for name, _, number in (entry.partition("=") for entry in _DATA_TYPES.split())}

message = declare_messages(
    "onnx_sparse.tensorflow",
    _DECLARATIONS,
    {
        "DataType": {
            **{f"DT_{name}": number for name, number in _NUMBERS.items()},
            **{f"DT_{name}_REF": number + 100 for name, number in _NUMBERS.items()},
        }
    },
)

SavedModel = message("SavedModel")
MetaGraphDef = message("MetaGraphDef")
AssetFileDef = message("AssetFileDef")
GraphDef = message("GraphDef")
NodeDef = message("NodeDef")
TensorProto = message("TensorProto")
TrackableObjectGraph = message("TrackableObjectGraph")
BundleHeaderProto = message("BundleHeaderProto")
BundleEntryProto = message("BundleEntryProto")
