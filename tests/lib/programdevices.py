"""Devices of the machine in which suites of programs run."""

IOMMU = ('--append=intel_iommu=on', '--qemu=-device', '--qemu=intel-iommu')

# What fio and testpmd of the suite `programs` talk to: a disk that the LWK's driver of NVMe serves,
# and two network devices of two models, each connected to the other one of its model.
PROGRAM_DEVICES = (*IOMMU, *(f'--qemu={word}' for word in (
    '-drive', 'driver=null-co,read-zeroes=on,size=64M,snapshot=on,if=none,id=disk',
    '-device', 'nvme,drive=disk,serial=disk,dbcs=off,max_ioqpairs=32')), *(
    f'--qemu={word}' for hub, model in enumerate(('virtio-net-pci,iommu_platform=on,disable-legacy=on', 'e1000'))
    for end in 'ab' for word in ('-netdev', f'hubport,id={end}{hub},hubid={hub}', '-device', f'{model},netdev={end}{hub}')))
