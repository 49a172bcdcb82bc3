"""NPUs for Kubernetes: a device plugin and a DRA driver in one program (`openrknn device-plugin`).

    inventory   which devices a node offers: whole NPUs, shares, cores
    health      whether each of them works, and why not
    allocation  what a container gets: nodes, variables, mounts
    messages    the kubelet's messages, built at run time from the .proto files
    services    the kubelet's services: handlers and stubs
    plugin      device plugin v1beta1
    dra         dynamic resource allocation: the driver
    slices      what is offered, in its words
    publisher, watch, object_store, features    keep the API server's slices equal to the node
    claims      prepared claims: files that outlive this process
    resource_health    tells the kubelet how devices are
    instances   sockets of several instances on one node
    nodeconfig  one file for many kinds of nodes
    api         the few calls to the API server that DRA needs
    cdi         files of the Container Device Interface
    labels      a file for Node Feature Discovery
    pods        which pod uses which NPU; metrics

It needs the extra `kubernetes` (grpcio, protobuf).
"""
