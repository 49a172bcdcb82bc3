"""The text of RKNN_QUERY_PERF_DETAIL as a table."""

from __future__ import annotations

from openrknn.vendor.context.perf import parse_perf_detail

# As runtime 1.5.2 writes it, shortened.
OLD = """\
ID   OpType           DataType Target InputShape                    OutputShape    DDR Cycles     NPU Cycles     Time(us)       MacUsage(%)    WorkLoad(0/1/2)-ImproveTherical        Task Number    RW(KB)         FullName        
1    InputOperator    UINT8    CPU    \\                             (1,3,16,16)    0              0              786            \\              0.0%/0.0%/0.0% - Up:0.0%               0              0.75           InputOperator:image
2    ConvRelu         UINT8    NPU    (1,3,16,16),(16,3,3,3),(16)   (1,16,8,8)     250            27             1048           0.00           100.0%/0.0%/0.0% - Up:0.0%             1              4.25           Conv:conv one   
Total Operator Elapsed Time(us): 1834
Total Memory RW Amount(MB): 0.5
"""  # noqa: E501, W291

# The way of version 2, made up after its titles.
NEW = """\
---------------------------------------------------------------------------------------------------------------------
                                   Network Layer Information Table
---------------------------------------------------------------------------------------------------------------------
ID   OpType             DataType Target InputShape       OutputShape      Cycles(DDR/NPU/Total)    Time(us)     MacUsage(%)          WorkLoad(0/1/2)      RW(KB)       FullName        
---------------------------------------------------------------------------------------------------------------------
1    InputOperator      FLOAT16  CPU    \\                (1,16,8,8)       0/0/0                    7            \\                    0.0%/0.0%/0.0%       2            InputOperator:x 
12   ConvSigmoid        FLOAT16  NPU    (1,16,8,8)       (1,16,8,8)       147/16/147               86           0.02/0.00/0.00       100.0%/0.0%/0.0%     2.50         Conv:conv0      
---------------------------------------------------------------------------------------------------------------------
Total Operator Elapsed Per Frame Time(us): 93
Total Memory Read/Write Per Frame Size(KB): 4.50
"""  # noqa: E501, W291


def test_the_table_of_1_5_2() -> None:
    detail = parse_perf_detail(OLD)
    first, second = detail.operators
    assert (first.number, first.type, first.target, first.time_us) == (1, "InputOperator", "CPU", 786)
    assert (second.data_type, second.name, second.traffic_kib) == ("UINT8", "Conv:conv one", 4.25)
    assert second.columns["InputShape"] == "(1,3,16,16),(16,3,3,3),(16)"
    assert second.columns["DDR Cycles"] == "250"
    assert second.columns["WorkLoad(0/1/2)-ImproveTherical"] == "100.0%/0.0%/0.0% - Up:0.0%"
    assert (detail.total_us, detail.traffic_mib) == (1834, 0.5)
    assert detail.text == OLD


def test_the_table_of_version_2() -> None:
    detail = parse_perf_detail(NEW)
    assert [operator.number for operator in detail.operators] == [1, 12]
    assert detail.operators[1].columns["Cycles(DDR/NPU/Total)"] == "147/16/147"
    assert detail.operators[1].time_us == 86
    assert detail.total_us == 93


def test_other_texts_are_kept() -> None:
    for text in ("", "nothing to say", "1 2 3\n4 5 6"):
        detail = parse_perf_detail(text)
        assert (detail.operators, detail.total_us, detail.text) == ((), None, text)
